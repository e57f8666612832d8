/** Messages of the plugin and the launcher to a session. */

import type { Delivery } from '../../native.js';

export type Message = Extract<Delivery, { type: number }>;
