/** What the plugin and the launcher say to a session. */

import type { Delivery } from '../../native.js';

export type Message = Extract<Delivery, { type: number }>;
