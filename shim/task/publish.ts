/** Publishes the event of a checkpoint to containerd. No stock shim does this. */

import { KfdError } from '../../src/errors.js';
import { connectTo } from '../../src/ttrpc/client.js';
import { statusCode } from '../../src/ttrpc/envelope.js';
import { forwardRequest, taskCheckpointed } from './codec.js';

const timeoutMs = 10_000;

/** `daemon`: the socket in TTRPC_ADDRESS. Throws KfdError or Node's error. */
export async function publishCheckpointed(
  daemon: string,
  namespace: string,
  containerId: string,
  image: string,
): Promise<void> {
  const now = Date.now();
  const payload = forwardRequest.encode({
    envelope: {
      timestamp: { seconds: String(Math.floor(now / 1000)), nanos: (now % 1000) * 1_000_000 },
      namespace,
      topic: '/tasks/checkpointed',
      event: {
        type_url: 'containerd.events.TaskCheckpointed',
        value: taskCheckpointed.encode({ container_id: containerId, checkpoint: image }),
      },
    },
  });
  const client = await connectTo(daemon, () => undefined);
  try {
    const service = 'containerd.services.events.ttrpc.v1.Events';
    const { code, message } = await client.call({ service, method: 'Forward', payload }, timeoutMs);
    if (code !== statusCode.ok) throw new KfdError('E_PROTOCOL', `containerd: ${message}`);
  } finally {
    client.close();
  }
}
