/** The texts of the verbs, for `--help` and the man pages. */

export interface Example {
  readonly command: string;
  /** What it does: a phrase without a full stop. */
  readonly does: string;
}

export interface VerbText {
  /** A phrase for lists of verbs. */
  readonly summary: string;
  readonly details: string;
  readonly examples: readonly Example[];
}

const text = (
  summary: string,
  details: readonly string[],
  ...examples: readonly (readonly [command: string, does: string])[]
): VerbText => ({
  summary,
  details: details.join(' '),
  examples: examples.map(([command, does]) => ({ command: `kfd-checkpoint ${command}`, does })),
});

export const verbTexts: ReadonlyMap<string, VerbText> = new Map([
  [
    'configure',
    text(
      'make CRIU and a container engine use this installation, or undo it',
      [
        "Writes podman's hook, the files that CRIU loads, and a marked block in CRIU's configuration.",
        'For containerd it writes a drop-in file instead of the hook and the block.',
        'Containers without a GPU are not affected. Run it again after an update.',
      ],
      ['configure --dry-run', 'shows what would change'],
      ['configure containerd', 'sets up containerd instead of podman'],
      ['configure --undo', 'removes what it wrote; run it before the installation is removed'],
    ),
  ],
  [
    'check',
    text(
      'check whether this host can checkpoint and restore, or can restore one given checkpoint',
      [
        'Without a checkpoint it looks at the driver, the GPUs, CRIU, the container engines that',
        'were set up, and the installation. With a checkpoint it shows which GPU replaces which, and',
        'every reason against a restore on this host. It starts and changes nothing.',
      ],
      ['check', 'tells how to mend what is missing on this host'],
      ['check job.tar', 'tells whether this archive can be restored here, and by which command'],
    ),
  ],
  [
    'selftest',
    text(
      "try on this host's own GPU whether checkpoints work",
      [
        'Runs stages in rising order of risk and stops at the first that fails. Each undoes what it',
        'has done. It needs no ROCm, no container image and no network. The report identifies no',
        'host and may be sent to others.',
      ],
      ['selftest', 'asks before the first stage that uses the GPU'],
      ['selftest --yes --report report.json', 'does not ask, and writes the report'],
      ['selftest --stages host', 'looks at the host alone'],
    ),
  ],
  [
    'checkpoint',
    text(
      'checkpoint with podman, without GPU contents that an earlier checkpoint holds',
      [
        'Runs "podman container checkpoint". Contents that the parent holds are left out of the new',
        'archive, which names the parent. Keep both. With --contents all GPU contents go to a folder,',
        'on a tmpfs for example, and a restore needs that folder. Options of podman follow the',
        'container.',
      ],
      [
        'checkpoint --parent job.tar job --export later.tar',
        'saves only what has changed since job.tar',
      ],
      [
        'checkpoint --contents /dev/shm/job job --export job.tar',
        'keeps GPU contents in memory; the archive is small',
      ],
    ),
  ],
  [
    'inspect',
    text(
      'show what a checkpoint holds',
      [
        'Shows the source host, GPUs, processes, queues, buffers, sizes and timings.',
        'Nothing is unpacked. Checkpoint images are named as containers-storage:NAME, oci:DIR[:TAG]',
        'or oci-archive:FILE[:TAG]. Those of containerd are exported first: "ctr image export".',
      ],
      ['inspect job.tar', 'shows a table'],
      ['inspect containers-storage:job:1', 'shows a checkpoint image that podman stores'],
      ['inspect --format json job.tar', 'prints all that is known, for programs'],
    ),
  ],
  [
    'verify',
    text(
      'check every frame of the GPU state of a checkpoint',
      [
        'Reads all GPU contents. Each frame is compared with its checksum, and each file with the',
        'manifest.',
      ],
      ['verify --quiet job.tar', 'checks an archive, for example after it was copied'],
    ),
  ],
  [
    'restore',
    text(
      'restore with podman, adapted to the device numbers of this host',
      [
        'Runs "podman container restore". Where device numbers differ, podman gets a copy of the',
        'archive with the numbers of this host. The copy lies in $TMPDIR, or beside the archive, and',
        'disappears when podman ends. What cannot be restored here is refused with all reasons',
        'before anything is started. Options of podman follow the checkpoint. It may be a checkpoint',
        'image: containers-storage:NAME, oci:DIR[:TAG] or oci-archive:FILE[:TAG].',
      ],
      ['restore job.tar', 'restores an archive'],
      ['restore job', 'restores a container that was checkpointed in place'],
      ['restore containers-storage:job:1', 'restores a checkpoint image that podman stores'],
      [
        'restore --parent job.tar later.tar --keep',
        "adds the contents of a parent; --keep is an option of podman's",
      ],
      [
        'restore --contents /dev/shm/job job.tar',
        'reads GPU contents from the folder where the checkpoint has put them',
      ],
    ),
  ],
  [
    'flatten',
    text(
      'write an archive and its parents as one archive that needs no parent',
      [
        'Parents are looked for beside the archive, unless --parent names them. The new archive is',
        'compressed like the old one.',
      ],
      ['flatten later.tar -o whole.tar', 'makes an archive that can be restored alone'],
    ),
  ],
  [
    'image',
    text(
      'make a checkpoint image in layers that stay as long as the GPU contents do',
      [
        'Writes an image into an OCI layout. GPU contents are layers of their own. Contents that a',
        'layer of an image in this layout has are not written again, and an engine does not push',
        'such a layer twice. "podman pull oci:DIR:TAG" takes the image into podman\'s storage. An image',
        'with the same tag is replaced.',
      ],
      [
        'image job.tar oci:/srv/job:registry.example/job:1',
        'makes an image that "podman pull" names registry.example/job:1',
      ],
    ),
  ],
  [
    'annotate',
    text(
      'add annotations about the GPUs to a checkpoint image',
      [
        'They are org.criu.checkpoint.gpu.vendor, .model, .count and .driver. Others stay, and so do',
        'all layers. The image gets another digest: sign it afterwards. An image that podman stores',
        'gets them as labels, too.',
      ],
      ['annotate containers-storage:job:1', 'changes an image that podman stores'],
      ['annotate oci:/srv/images/job', 'changes an image layout'],
    ),
  ],
  [
    'migrate',
    text(
      'move a running podman container to another host',
      [
        'Asks the target over ssh first: every reason against it comes before anything stops. Then',
        'the container is checkpointed, sent and restored there. The source keeps it, stopped, until',
        'the target has said that it runs, and brings it back otherwise. The same command goes on',
        'with a migration that was interrupted.',
      ],
      ['migrate --dry-run job root@host-b', 'asks the target, and stops nothing'],
      ['migrate job root@host-b', 'moves the container, and prints how long it stood still'],
    ),
  ],
  [
    'sessions',
    text(
      'list the running checkpoints, restores and migrations',
      [
        'Each checkpoint or restore of a container with a GPU has one session, whichever container',
        'engine began it. A second table has migrations of either side, also those whose process has',
        'ended before them.',
      ],
      ['sessions', 'shows how far each one is'],
    ),
  ],
  [
    'watch',
    text(
      'follow a running checkpoint, restore or migration to its end',
      [
        'Draws a bar on a terminal. Elsewhere it prints a line for each phase and for each tenth of',
        "the bytes. The exit status is the one that belongs to the session's error. The session need",
        'not be named when there is only one. A migration is named by its id or by its container.',
      ],
      ['watch', 'follows the only session'],
      ['watch job', 'follows the migration of the container job'],
      ['watch --format json 4711', 'prints four lines of JSON a second'],
    ),
  ],
  [
    'cancel',
    text(
      'stop a running checkpoint, restore or migration',
      [
        'The container of a cancelled checkpoint goes on. A cancelled restore leaves nothing behind.',
        'It is too late when the image is complete, or when the restored GPU runs again. A cancelled',
        'migration leaves the container on the source. It is too late when the target may run it.',
      ],
      ["cancel 4711 --reason 'host goes down'", 'stops one session; its log has the reason'],
      ['cancel job', 'stops the migration of the container job'],
    ),
  ],
  [
    'version',
    text(
      'print the version',
      ['With --format json it also names the release of Node.js that runs it.'],
      ['version --format json', 'prints both for programs'],
    ),
  ],
]);
