import { bounds, fieldsOf, jsonOrText, ModelCard } from '../../protocol/index.ts';

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
