/** The version of this package, as the manifest and `kfd-checkpoint version` show it. */

import { readFileSync } from 'node:fs';

interface PackageJson {
  readonly version: string;
}

export const version = (
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as PackageJson
).version;
