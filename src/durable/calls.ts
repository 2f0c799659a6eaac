import type { HostedObject } from './host.ts';

/** A table of calls by name: each is a function of what its object works on, and of what its caller gives. */
export type Table = Record<string, (on: never, ...asked: never[]) => unknown>;

/** The arguments that the caller of a function of a table gives. */
export type Asked<Call> = Call extends (on: never, ...asked: infer Given) => unknown ? Given : never;

/** The methods that `expose` makes of a table. */
export type Exposed<Calls extends Table> = {
  [Name in keyof Calls]: (...asked: Asked<Calls[Name]>) => Promise<ReturnType<Calls[Name]>>;
};

/**
 * The methods made of a table whose functions take as last argument a function that is given the answer, at once or
 * later.
 */
export type Answered<Calls extends Table> = {
  [Name in keyof Calls]: Asked<Calls[Name]> extends [...infer Given, (answer: infer Answer) => void]
    ? (...asked: Given) => Promise<Answer>
    : never;
};

/** The calls of a hosted object: its methods, except those that its host alone calls. Its stubs have them. */
export type CallsOf<Hosted> = Omit<Hosted, keyof HostedObject>;

/**
 * Gives a class a method for each name in a table of calls, which forwards its call. To be called in the class's static
 * block.
 */
export function expose<Exposing extends object, Calls extends object>(
  of: { prototype: Exposing },
  calls: Calls,
  forward: (object: Exposing, name: keyof Calls, asked: unknown[]) => Promise<unknown>,
): void {
  const methods = of.prototype as Record<string, unknown>;
  for (const name of Object.keys(calls)) {
    methods[name] = function (this: Exposing, ...asked: unknown[]) {
      return forward(this, name as keyof Calls, asked);
    };
  }
}

/** Returns the names of the calls of a class of hosted objects, as `CallsOf` has them. */
export function callsOf(prototype: object): string[] {
  const own = Object.getOwnPropertyDescriptors(prototype);
  return Object.keys(own).filter(
    (name) =>
      typeof own[name]!.value === 'function' &&
      name !== 'constructor' &&
      !Object.hasOwn(CALLED_BY_HOST, name),
  );
}

/** The members of `HostedObject`, which no stub has. */
const CALLED_BY_HOST: Record<keyof HostedObject, true> = {
  pings: true,
  alarm: true,
  mayOpen: true,
  opened: true,
  message: true,
  closed: true,
  clockSetBack: true,
};
