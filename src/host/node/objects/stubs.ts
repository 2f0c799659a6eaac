import { callsOf } from '../../../durable/calls.ts';
import type { HeldObject } from './held-object.ts';
import type { Caller } from './life.ts';
import { plainCopy } from './plain-copy.ts';

/** The object that a stub asks, and who asks. */
export interface Asking {
  held: HeldObject;
  /** The object that asks; null: the gateway or a relay, which have nothing to write. */
  caller: Caller | null;
  /** Whether an object that is not open waits in line to be opened, since the call comes from outside; left out: no. */
  inLine?: boolean;
}

/** Asks an object of any class by the names of its methods. */
export type Stub = Record<string, (...asked: unknown[]) => Promise<unknown>>;

export interface StubOf {
  /** The prototype of the class. */
  prototype: object;
  /** The calls whose answers depend on nothing stored, and so wait for no disk. */
  atOnce?: readonly string[];
  /** The calls whose byte arrays go by reference: they are large, and callers do not touch them any more. */
  lent?: readonly string[];
  /** The call that opens a socket; left out: the object has no sockets. */
  opens?: string;
}

/**
 * Makes the stubs for objects of a class: each of its methods can be called. Arguments and answers go as copies
 * (plain-copy.ts).
 */
export function stubsOf({ prototype, atOnce = [], lent = [], opens }: StubOf): (asking: Asking) => Stub {
  class Asks {
    readonly asking: Asking;

    constructor(asking: Asking) {
      this.asking = asking;
    }
  }
  const methods = Asks.prototype as unknown as Record<string, unknown>;
  for (const name of callsOf(prototype)) {
    const waits = !atOnce.includes(name);
    const bytes = lent.includes(name) ? 'lent' : 'copied';
    methods[name] = function (this: Asks, ...asked: unknown[]) {
      return ask(
        this.asking,
        name,
        asked.map((one) => plainCopy(one, bytes)),
        waits,
      );
    };
  }
  if (opens !== undefined) {
    methods[opens] = function (this: Asks, opened: unknown) {
      return this.asking.held.connect(plainCopy(opened, 'copied'));
    };
  }
  return (asking) => new Asks(asking) as unknown as Stub;
}

function ask(
  { held, caller, inLine = false }: Asking,
  name: string,
  asked: unknown[],
  waits: boolean,
): Promise<unknown> {
  const call = () => held.call(name, asked, waits, inLine);
  return caller === null ? call() : leaving(caller, call);
}

/**
 * Makes a call on behalf of an object once everything that it wrote before is on disk. If the object has ended, the
 * promise never settles: its work stops there.
 */
export function leaving<T>(caller: Caller, ask: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    caller.leave(() => {
      const answered = ask().then(
        (answer) => caller.hears(() => resolve(answer)),
        (error: unknown) => caller.hears(() => reject(error)),
      );
      caller.during(answered);
    });
  });
}
