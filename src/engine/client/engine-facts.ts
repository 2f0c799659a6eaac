import { bounds, fieldsOf, jsonOrText, ModelCard } from '../../protocol/index.ts';
import type { MetricNames } from '../kinds/description.ts';
import type { EngineGauges } from './types.ts';

/** The models that an engine says it serves. */
export interface ModelList {
  /** The names of the models, the engine's own first. */
  names: string[];
  /** The cards as the engine wrote them, in the same order; cards that are too large are left out. */
  cards: ModelCard[];
}

/** Reads the body of `/v1/models`; returns empty lists if it is no such body. */
export function readModelList(text: string): ModelList {
  const cards = entriesOf(text).flatMap((entry) => ModelCard.safeParse(entry).data ?? []);
  return {
    names: cards.map(({ id }) => id),
    cards: cards
      .slice(0, bounds.KNOWN_MODELS_PER_WORKER)
      .filter((card) => JSON.stringify(card).length <= bounds.MODEL_CARD_CHARACTERS),
  };
}

function entriesOf(text: string): unknown[] {
  const { data } = fieldsOf(jsonOrText(text));
  return Array.isArray(data) ? data : [];
}

/** Returns the version in a body of `/version`, as vLLM answers it; null if it is no such body. */
export function versionIn(text: string): string | null {
  const { version } = fieldsOf(jsonOrText(text));
  return typeof version === 'string' ? version : null;
}

/**
 * Reads gauges and progress from a Prometheus text page. Counts are summed over their labels (a data-parallel server
 * has a series for each engine); of several cache usages the highest counts, since shares cannot be summed.
 * @returns null when the page holds no gauge
 */
export function readGauges(page: string, names: MetricNames): EngineGauges | null {
  const running = valuesOf(page, names.running);
  const waiting = valuesOf(page, names.waiting);
  const usage = valuesOf(page, names.kvCacheUsage);
  if (running.length + waiting.length + usage.length === 0) return null;
  const generated = valuesOf(page, names.generatedTokens);
  const preempted = names.preemptions === undefined ? [] : valuesOf(page, names.preemptions);
  const progress = names.progress.flatMap((name) => valuesOf(page, name));
  return {
    running: sum(running),
    waiting: sum(waiting),
    kvCacheUsage: Math.min(1, Math.max(0, ...usage)),
    ...(generated.length > 0 ? { generatedTokens: sum(generated) } : {}),
    ...(preempted.length > 0 ? { preemptions: sum(preempted) } : {}),
    ...(progress.length > 0 ? { progress: sum(progress) } : {}),
  };
}

function valuesOf(page: string, name: string): number[] {
  const values: number[] = [];
  for (const line of page.split('\n')) {
    if (!line.startsWith(name)) continue;
    const rest = line.slice(name.length);
    if (!rest.startsWith('{') && !rest.startsWith(' ')) continue;
    const value = Number(
      rest
        .slice(rest.lastIndexOf('}') + 1)
        .trim()
        .split(' ')[0],
    );
    if (Number.isFinite(value)) values.push(value);
  }
  return values;
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
