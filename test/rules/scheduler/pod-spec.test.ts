import * as client from '@kubernetes/client-node';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { PodSpec } from '../../../src/scheduler/pod-spec.ts';

/** The client's description of a type of Kubernetes: its fields, each with its type. */
interface Model {
  getAttributeTypeMap(): { baseName: string; type: string }[];
}

const MODELS = client as unknown as Record<string, Model | undefined>;

/** Every object of the schema, by its path, beside the type that it stands for. */
function* objectsOf(
  schema: z.core.$ZodType,
  type: string,
  path: string,
): Generator<[string, string[], string[]]> {
  const inner = schema instanceof z.ZodOptional ? schema.unwrap() : schema;
  if (inner instanceof z.ZodArray) return yield* objectsOf(inner.element, type, path);
  if (!(inner instanceof z.ZodObject)) return;
  const fields = MODELS[type]!.getAttributeTypeMap();
  yield [path, Object.keys(inner.shape).sort(), fields.map(({ baseName }) => baseName).sort()];
  for (const { baseName, type: held } of fields) {
    const child = inner.shape[baseName] as z.core.$ZodType | undefined;
    const name = /\w+(?=>?$)/.exec(held)?.[0] ?? '';
    if (child && MODELS[name]) yield* objectsOf(child, name, `${path}.${baseName}`);
  }
}

describe('the fields of a pod that a fleet may name', () => {
  const objects = [...objectsOf(PodSpec, 'V1PodSpec', 'pod')];

  it.each(objects)('are those of Kubernetes: %s', (_path, ours, theirs) => {
    expect(ours).toEqual(theirs);
  });

  it('are looked at where pods are mostly changed', () => {
    expect(objects.map(([path]) => path)).toEqual(
      expect.arrayContaining([
        'pod',
        'pod.containers',
        'pod.containers.resources',
        'pod.tolerations',
        'pod.volumes',
      ]),
    );
  });
});
