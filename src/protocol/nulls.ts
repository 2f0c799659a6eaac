import type * as z from 'zod';

/** Left out, or null as some senders write it. */
export function otherwise<T>(schema: z.ZodType<T>, value: T) {
  return schema.nullish().transform((given) => given ?? value);
}

/** The same without a value in its place. */
export function maybe<T>(schema: z.ZodType<T>) {
  return schema
    .nullish()
    .transform((given) => given ?? undefined)
    .optional();
}
