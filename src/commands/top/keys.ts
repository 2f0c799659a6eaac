/** This file defines the state of what `top` shows, and how keys change it. */

type TopView = 'fleet' | 'requests' | 'request' | 'help';

export interface TopState {
  view: TopView;
  /** The text that shown rows contain, in the name of a model, a pool or a worker. */
  filter: string;
  /** Whether keys are text of the filter. */
  isTyping: boolean;
  /** The index into the sort orders of the view; 0 for the given order. */
  sort: number;
  /** The index of the selected request among those that are shown. */
  selected: number;
}

export const FIRST_STATE: TopState = {
  view: 'fleet',
  filter: '',
  isTyping: false,
  sort: 0,
  selected: 0,
};

/** The keys that the help lists. */
export const KEYS: [keys: string, meaning: string][] = [
  ['f', 'the fleet: pools and workers'],
  ['r', 'requests that have ended, newest first'],
  ['↑ ↓, k j', 'in requests: select another one'],
  ['Enter', 'in requests: show its course; in the filter: keep it'],
  ['/', 'show only rows whose model, pool or worker has a text in its name; Esc removes the filter'],
  ['s', 'change the order of workers or requests'],
  ['Esc', 'back'],
  ['?', 'these keys'],
  ['q, Ctrl-C', 'quit'],
];

const BACK: Record<TopView, TopView> = {
  fleet: 'fleet',
  requests: 'fleet',
  request: 'requests',
  help: 'fleet',
};

/**
 * Returns the state after a key.
 * @param key the key as a terminal sends it
 * @param rows the number of requests that are shown
 * @param orders the number of the view's sort orders
 * @returns the new state, or null if the key quits
 */
export function pressed(
  state: TopState,
  key: string,
  { rows, orders }: { rows: number; orders: number },
): TopState | null {
  if (key === '\x03') return null;
  if (state.isTyping) return typed(state, key);
  const move = (by: number) => ({
    ...state,
    selected: Math.max(0, Math.min(rows - 1, state.selected + by)),
  });
  switch (key) {
    case 'q':
      return null;
    case 'f':
      return { ...state, view: 'fleet', sort: 0 };
    case 'r':
      return { ...state, view: 'requests', sort: 0, selected: 0 };
    case '?':
      return { ...state, view: state.view === 'help' ? 'fleet' : 'help' };
    case '/':
      return { ...state, isTyping: true, selected: 0 };
    case 's':
      return { ...state, sort: orders === 0 ? 0 : (state.sort + 1) % orders, selected: 0 };
    case '\x1b':
      if (state.view === 'fleet' || state.view === 'requests') {
        if (state.filter !== '') return { ...state, filter: '', selected: 0 };
      }
      return { ...state, view: BACK[state.view] };
    case '\r':
      return state.view === 'requests' && rows > 0 ? { ...state, view: 'request' } : state;
    case 'j':
    case '\x1b[B':
      return state.view === 'requests' ? move(1) : state;
    case 'k':
    case '\x1b[A':
      return state.view === 'requests' ? move(-1) : state;
    default:
      return state;
  }
}

function typed(state: TopState, key: string): TopState {
  if (key === '\r') return { ...state, isTyping: false };
  if (key === '\x1b') return { ...state, isTyping: false, filter: '' };
  if (key === '\x7f' || key === '\b') return { ...state, filter: state.filter.slice(0, -1) };
  // Arrows and other control sequences are no text.
  return /^\P{Cc}+$/u.test(key) ? { ...state, filter: state.filter + key } : state;
}

/** Returns the keys in one read of a terminal; a pasted text has many. */
export function keysIn(text: string): string[] {
  const keys: string[] = [];
  for (let rest = text; rest !== ''; rest = rest.slice(keys.at(-1)!.length)) {
    // An arrow is three characters.
    keys.push(rest.startsWith('\x1b[') ? rest.slice(0, 3) : String.fromCodePoint(rest.codePointAt(0)!));
  }
  return keys;
}

/** Returns whether a row with these names passes the filter. */
export function matches(filter: string, names: readonly (string | null)[]): boolean {
  const wanted = filter.toLowerCase();
  return names.some((name) => name?.toLowerCase().includes(wanted));
}
