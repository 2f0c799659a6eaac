import { signal } from '@preact/signals';
import { switchUtc } from './clock.ts';
import { go, VIEWS } from './router.ts';

/** The paths of views by the second key, after `g`. */
const PATHS = new Map(
  Object.entries(VIEWS).flatMap(([path, { key }]): [string, string][] => (key ? [[key, path]] : [])),
);

/** The shortcuts that the help lists; they work as soon as the page is loaded. */
export const SHORTCUTS: [keys: string, meaning: string][] = [
  ['/', 'search'],
  ...[...PATHS].map(([key, path]): [string, string] => [`g ${key}`, VIEWS[path]!.name.toLowerCase()]),
  ['j k', 'next row, previous row'],
  ['Enter', 'open the row'],
  ['Esc', 'back'],
  ['c', 'copy the id'],
  ['← →', 'in a chart: the values of another time; Enter: its requests'],
  ['Shift T', 'times in UTC, or as on this machine'],
  ['?', 'this list'],
];

export const isHelpOpen = signal(false);

/** The second key of a pair counts if it comes within this many ms. */
const PAIR_MS = 1500;

/** A table's action on `j` and `k`; the table that was shown last receives them. */
export type MoveRow = (by: 1 | -1) => void;
let moveRow: MoveRow | null = null;

/** Sets the action on `j` and `k`. @returns a function that removes it */
export function onMoveRow(move: MoveRow): () => void {
  moveRow = move;
  return () => {
    if (moveRow === move) moveRow = null;
  };
}

export function startShortcuts(): void {
  let first = { key: '', at: 0 };
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    // A dialog and a menu close by themselves on Esc.
    if (document.querySelector('dialog.change, :popover-open')) return;
    if (isTyping(event.target)) {
      if (event.key === 'Escape') (event.target as HTMLElement).blur();
      return;
    }
    const isPair = first.key === 'g' && event.timeStamp - first.at < PAIR_MS;
    const view = isPair ? PATHS.get(event.key) : undefined;
    first = { key: event.key, at: event.timeStamp };
    if (view !== undefined) go(view);
    else if (!act(event.key)) return;
    event.preventDefault();
  });
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches('input, textarea, select, [contenteditable]');
}

/** Acts on a key. @returns whether the key has a meaning */
function act(key: string): boolean {
  switch (key) {
    case '/':
      document.querySelector<HTMLInputElement>('#search')?.focus();
      return true;
    case '?':
      isHelpOpen.value = !isHelpOpen.value;
      return true;
    case 'Escape':
      if (isHelpOpen.value) isHelpOpen.value = false;
      else history.back();
      return true;
    case 'T':
      switchUtc();
      return true;
    case 'c':
      return copyId();
    case 'j':
    case 'k':
      moveRow?.(key === 'j' ? 1 : -1);
      return moveRow !== null;
    default:
      return false;
  }
}

/** Copies the id of the focused row, else that of the view's subject. */
function copyId(): boolean {
  const row = document.activeElement?.closest<HTMLElement>('[data-id]');
  const id = (row ?? document.querySelector<HTMLElement>('main [data-id]:not(tr)'))?.dataset.id;
  if (!id) return false;
  void navigator.clipboard?.writeText(id);
  return true;
}
