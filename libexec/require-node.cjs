// Node.js loads this file before a program, which an old Node.js cannot even parse. So this file is ES5.
'use strict';

if (parseInt(process.versions.node, 10) < 20) {
  console.error(
    'kfd-checkpoint: Node.js %s is too old: install nodejs 20 or later, or the package kfd-checkpoint-node',
    process.versions.node,
  );
  process.exit(1);
}
