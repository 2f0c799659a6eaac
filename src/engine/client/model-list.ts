import { fieldsOf, jsonOrText, limits, ModelCard } from '../../protocol/index.ts';

/** What an engine says of the models that it serves. */
export interface ModelList {
  /** Its own first. */
  names: string[];
  /** Each as it stands there, in the same order; those that say too much are left out. */
  cards: ModelCard[];
}

/** Reads the body of `/v1/models`; empty where it is none. */
export function readModelList(text: string): ModelList {
  const cards = entriesOf(text).flatMap((entry) => ModelCard.safeParse(entry).data ?? []);
  return {
    names: cards.map(({ id }) => id),
    cards: cards
      .slice(0, limits.KNOWN_MODELS_PER_WORKER)
      .filter((card) => JSON.stringify(card).length <= limits.MODEL_CARD_CHARACTERS),
  };
}

function entriesOf(text: string): unknown[] {
  const { data } = fieldsOf(jsonOrText(text));
  return Array.isArray(data) ? data : [];
}

/** Of the body of `/version`, as vLLM answers it; null where it is none. */
export function versionIn(text: string): string | null {
  const { version } = fieldsOf(jsonOrText(text));
  return typeof version === 'string' ? version : null;
}
