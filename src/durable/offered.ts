import { DurableObject } from 'cloudflare:workers';

export { offer } from './offer.ts';

/** `DurableObject`, its type with the methods that the class makes of tables of calls with `offer`. */
export function objectThatOffers<Env, Offered>() {
  return DurableObject as new (
    ctx: DurableObjectState,
    env: Env,
  ) => DurableObject<Env> & Offered;
}
