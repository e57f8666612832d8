/** The program as it describes itself. */

import type { Command } from 'commander';
import type { CommandContext } from '../cli/context.js';
import { programFor } from '../cli/program.js';

/** Where packages install it. Help shows it as the default of --prefix. */
const installed: Pick<CommandContext, 'prefix'> = { prefix: '/usr/lib/kfd-checkpoint' };

/** The program with its verbs and options. It cannot run. */
export const describedProgram = (): Command => programFor(installed as CommandContext);
