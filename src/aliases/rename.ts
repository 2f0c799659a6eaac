import { fieldsOf, jsonOrText, pack, replaceBytes, unpack } from '../protocol/index.ts';
import { bodyFacts } from '../request-facts/body-facts.ts';
import { jobFacts, withModel } from '../request-facts/job-facts.ts';

/**
 * Returns the payload of a request with another model in place of the alias that its body names. A body that does not
 * name the alias stays as it is: its caller named the alias elsewhere.
 */
export function withTarget(
  jobType: string,
  payload: Uint8Array<ArrayBuffer>,
  alias: string,
  model: string,
): Uint8Array<ArrayBuffer> {
  const packed = unpack(payload);
  if (packed === null) {
    const text = textWithTarget(jobType, new TextDecoder().decode(payload), alias, model);
    return new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;
  }
  const { head, body } = packed;
  const { content_type: type } = fieldsOf(jsonOrText(head));
  const { kind, model: named, modelValue } = bodyFacts(body, typeof type === 'string' ? type : null);
  if (named !== alias || modelValue === undefined) return payload;
  return pack(head, replaceBytes(body, modelValue, kind === 'json' ? JSON.stringify(model) : model));
}

/** Returns the payload of a stored job, JSON text of an object, with another model in place of the alias. */
export function textWithTarget(jobType: string, payload: string, alias: string, model: string): string {
  const facts = jobFacts(jobType, new TextEncoder().encode(payload));
  return facts.model === alias ? withModel(payload, facts, model) : payload;
}
