/** Gives a class a method of each of these names, which forwards its call. To be called in the class's static block. */
export function offer<Offering extends object, Name extends string>(
  of: { prototype: Offering },
  names: readonly Name[],
  forward: (object: Offering, name: Name, asked: unknown[]) => Promise<unknown>,
): void {
  const methods = of.prototype as Record<string, unknown>;
  for (const name of names) {
    methods[name] = function (this: Offering, ...asked: unknown[]) {
      return forward(this, name, asked);
    };
  }
}
