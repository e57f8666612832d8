/**
 * Takes out of a report what identifies a host or a person. A report is meant to be sent to others: it has no names of
 * hosts and users, no serial numbers, and no addresses of networks, buses and memory.
 */

/** What stands for what was taken out. */
const rules: readonly (readonly [pattern: RegExp, word: string])[] = [
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '(uuid)'],
  [/\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b/gi, '(mac)'],
  [/\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b/gi, '(pci)'],
  [/(?<![\w:])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}(?![\w:])/gi, '(ip)'],
  [/(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])/g, '(ip)'],
  [/\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b/g, '(mail)'],
  [/(?<=\/home\/)[^/\s"']+/g, '(user)'],
  [/\b0x[0-9a-f]{6,16}\b/gi, '(address)'],
  // Ids of containers, pointers and mappings in logs. Counts of bytes are decimal and stay.
  [/\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{10,64}\b/g, '(hex)'],
  [/\b\d{16,}\b/g, '(number)'],
];

/**
 * A function for texts of the report. `secrets`: what is known of this host, such as its name. Those of fewer than
 * three characters are left alone, because they would be found in other words.
 */
export function redactor(secrets: readonly string[]): (text: string) => string {
  const words = [...new Set(secrets)].filter((secret) => secret.length >= 3);
  const known = words
    .toSorted((a, b) => b.length - a.length)
    .map((word) => word.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  const secret =
    known.length === 0 ? undefined : new RegExp(`(?<!\\w)(?:${known.join('|')})(?!\\w)`, 'gi');
  return (text) => {
    const first = secret === undefined ? text : text.replace(secret, '(secret)');
    return rules.reduce((rest, [pattern, word]) => rest.replace(pattern, word), first);
  };
}

/** The same value with `redact` applied to every text in it, at any depth. Names of members stay. */
export function redacted<T>(value: T, redact: (text: string) => string): T {
  if (typeof value === 'string') return redact(value) as T;
  if (Array.isArray(value)) return value.map((one: unknown) => redacted(one, redact)) as T;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, redacted(member as unknown, redact)]),
  ) as T;
}
