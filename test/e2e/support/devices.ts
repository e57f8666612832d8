/** How scenarios give a container its GPUs: by device nodes, or with the word `--cdi` by CDI names. */

const byName = process.argv.includes('--cdi');

/** What `--device` of podman takes for these GPUs. By its name, GPU 0 is `/dev/dri/renderD128` and `/dev/dri/card0`. */
export function gpuDevices(...gpus: number[]): string[] {
  if (byName) return gpus.map((gpu) => `amd.com/gpu=${gpu}`);
  return ['/dev/kfd', ...gpus.map((gpu) => `/dev/dri/renderD${128 + gpu}`)];
}

/** The flags of `podman run` for them. */
export function gpuFlags(...gpus: number[]): string[] {
  return gpuDevices(...gpus).flatMap((device) => ['--device', device]);
}
