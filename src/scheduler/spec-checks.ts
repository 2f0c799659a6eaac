import type * as z from 'zod';
import { expectationWords, fieldsOf } from '../protocol/index.ts';
import { LabelValue } from './pod-spec.ts';

/**
 * Reports the faults that no field shows by itself. The value may be anything yet: its own faults are reported beside
 * these.
 */
export function checkReferences(value: unknown, context: z.core.$RefinementCtx): void {
  const { providers, pools } = fieldsOf(value);
  const known = Object.keys(fieldsOf(providers));
  const fault = (path: PropertyKey[], message: string) =>
    context.addIssue({ code: 'custom', path: ['pools', ...path], message });
  for (const [id, pool] of Object.entries(fieldsOf(pools))) {
    const { min, max, machines, model, served_names, adapters } = fieldsOf(pool);
    const taken = [id, model, ...(Array.isArray(served_names) ? served_names : [])];
    for (const [index, adapter] of (Array.isArray(adapters) ? adapters : []).entries()) {
      const { name } = fieldsOf(adapter);
      if (typeof name === 'string' && taken.includes(name))
        fault(
          [id, 'adapters', index, 'name'],
          `"${name}" is the model's or the pool's own name: give it another`,
        );
    }
    if (typeof min === 'number' && typeof max === 'number' && min > max) {
      fault([id, 'min'], `min is ${min}, more than max, ${max}`);
    }
    for (const [index, machine] of (Array.isArray(machines) ? machines : []).entries()) {
      const { provider, instance_type } = fieldsOf(machine);
      if (typeof provider !== 'string') continue;
      if (
        fieldsOf(fieldsOf(providers)[provider]).driver === 'kubernetes' &&
        typeof instance_type === 'string'
      ) {
        const wrong = LabelValue.safeParse(instance_type, { error: expectationWords }).error?.issues[0];
        if (wrong)
          fault(
            [id, 'machines', index, 'instance_type'],
            `${wrong.message}, not ${JSON.stringify(instance_type)}`,
          );
      }
      if (known.includes(provider)) continue;
      const names = known.join(', ') || 'none';
      fault(
        [id, 'machines', index, 'provider'],
        `there is no provider "${provider}" under providers, only ${names}`,
      );
    }
  }
}

/**
 * Names of variables that hold a secret, by their end: MAX_TOKENS and TOKENIZER do not match. The value of
 * GOOGLE_APPLICATION_CREDENTIALS is a path.
 */
const HOLDS_A_SECRET =
  /(?:^|_)(?:TOKEN|API_?KEY|ACCESS_KEY|PRIVATE_KEY|SECRET(?:_KEY)?|PASSWORD|PASSWD|(?<!APPLICATION_)CREDENTIALS?)$/i;

/** Reports secrets in the spec, since every token that may read the fleet may read its spec. */
export function checkSecrets(value: unknown, context: z.core.$RefinementCtx): void {
  for (const [id, pool] of Object.entries(fieldsOf(fieldsOf(value).pools))) {
    for (const name of Object.keys(fieldsOf(fieldsOf(pool).env)).filter((name) =>
      HOLDS_A_SECRET.test(name),
    )) {
      const message = `looks like a secret, which does not belong into the spec: put its name under "secrets", and its value into the environment of the launcher`;
      context.addIssue({
        code: 'custom',
        path: ['pools', id, 'env', name],
        message,
        params: { of: 'key' },
      });
    }
  }
}
