import type * as z from 'zod';

/** Puts a value in place of a field that is left out, or null as some senders write it. */
export function otherwise<T>(schema: z.ZodType<T>, value: T) {
  return schema.nullish().transform((given) => given ?? value);
}

/** Treats a field that is null as one that is left out. */
export function maybe<T>(schema: z.ZodType<T>) {
  return schema
    .nullish()
    .transform((given) => given ?? undefined)
    .optional();
}
