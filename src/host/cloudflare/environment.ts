import type { GatewayEnv } from '../../gateway/env.ts';
import { acceptUpgrade } from './accept-upgrade.ts';
import { type ObjectBindings, objectsOf } from './objects.ts';

/** The bindings that the runtime hands to the gateway and to each object: settings, secrets and namespaces. */
export type Bindings = ObjectBindings & Omit<GatewayEnv, 'objects' | 'acceptUpgrade'>;

const known = new WeakMap<object, GatewayEnv>();

/** Adds to the bindings what the gateway and the objects need beside them. */
export function environmentOf<B extends Bindings>(bindings: B): B & GatewayEnv {
  const made = known.get(bindings) ?? { ...bindings, objects: objectsOf(bindings), acceptUpgrade };
  known.set(bindings, made);
  return made as B & GatewayEnv;
}
