/**
 * Gives a class a method of each name of a table of calls, which forwards its call. To be called in the class's static
 * block.
 */
export function offer<Offering extends object, Calls extends object>(
  of: { prototype: Offering },
  calls: Calls,
  forward: (object: Offering, name: keyof Calls, asked: unknown[]) => Promise<unknown>,
): void {
  const methods = of.prototype as Record<string, unknown>;
  for (const name of Object.keys(calls)) {
    methods[name] = function (this: Offering, ...asked: unknown[]) {
      return forward(this, name as keyof Calls, asked);
    };
  }
}
