/** Requests to the kubelet and to the API server, whose certificates they have made themselves. */

import { request } from 'node:https';

export interface Answer {
  /** Of HTTP. */
  readonly status: number;
  readonly body: string;
}

export interface Request {
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly body?: object;
  /** Its end is that of the caller. */
  readonly signal?: AbortSignal;
}

/** The token of an administrator: support/api-server.ts. */
export const adminToken = 'admin';

/** Throws when nobody answers, and when `signal` ends it. */
export function ask(
  port: number,
  path: string,
  { method = 'GET', body, signal }: Request = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = body === undefined ? undefined : JSON.stringify(body);
    const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' };
    const options = { host: '127.0.0.1', port, path, method, headers, rejectUnauthorized: false };
    const going = request({ ...options, agent: false, ...(signal && { signal }) }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: text }));
      response.on('error', reject);
    });
    going.on('error', reject);
    going.end(sent);
  });
}
