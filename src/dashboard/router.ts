import { computed, signal } from '@preact/signals';
import { percentDecoded } from '../protocol/text.ts';

/** The page's root, as the gateway wrote it into the document; it stays when the address changes. */
const ROOT = new URL(
  document.querySelector('meta[name="base"]')?.getAttribute('content') || './',
  location.href,
);

/**
 * Returns the address of a path of the page or its API, behind any proxy. @param path without a slash at its beginning
 */
export function at(path: string): string {
  return new URL(path, ROOT).href;
}

/** Returns an address without the page's own scheme and host, for links. */
export function href(path: string): string {
  const url = new URL(path, ROOT);
  return url.pathname + url.search;
}

/** The views by the first part of their path, in the order of the bar. */
export const VIEWS: Record<string, { name: string; key?: string; isForAdmins?: true }> = {
  '': { name: 'Fleet', key: 'f' },
  queue: { name: 'Queue', key: 'q' },
  requests: { name: 'Requests', key: 'r' },
  jobs: { name: 'Jobs', key: 'j' },
  batches: { name: 'Batches', key: 'b' },
  usage: { name: 'Usage', key: 'u' },
  spend: { name: 'Spend', key: 's' },
  try: { name: 'Try it', key: 't' },
  tokens: { name: 'Tokens', key: 'k', isForAdmins: true },
  audit: { name: 'Audit', key: 'a', isForAdmins: true },
  alerts: { name: 'Alerts', key: 'l', isForAdmins: true },
  // The view of requests leads to it.
  responses: { name: 'Responses' },
  // This view shows one worker; the fleet's rows lead to it.
  workers: { name: 'Worker' },
};

interface Place {
  /** The path from the page's root, without a slash at either end: `workers/vast-17`. */
  path: string;
  /** The filters in the address. */
  query: URLSearchParams;
}

const place = signal(readPlace());

export const path = computed(() => place.value.path);
/** The view, and the id of its subject: `['workers', 'vast-17']`. */
export const segments = computed(() => path.value.split('/').map(percentDecoded));
export const query = computed(() => place.value.query);

function readPlace(): Place {
  const rest = location.pathname.startsWith(ROOT.pathname)
    ? location.pathname.slice(ROOT.pathname.length)
    : '';
  return { path: rest.replaceAll(/^\/|\/$/g, ''), query: new URLSearchParams(location.search) };
}

/** The scroll position of each address, so that going back shows the same rows. */
const scrolled = new Map<string, number>();
history.scrollRestoration = 'manual';

/** Goes to a path of the page. */
export function go(to: string): void {
  scrolled.set(location.href, scrollY);
  history.pushState(null, '', at(to));
  place.value = readPlace();
  scrollTo(0, 0);
  // Tab then continues in the new view, and screen readers begin there.
  document.getElementById('content')?.focus({ preventScroll: true });
}

/** Changes the address's filters without a step in the history; null or '' removes a filter. */
export function filter(changes: Record<string, string | null>): void {
  const changed = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) changed.set(name, value);
    else changed.delete(name);
  }
  const search = changed.toString();
  history.replaceState(null, '', search ? `?${search}` : location.pathname);
  place.value = readPlace();
}

/** Handles the browser's buttons, and links of the page without loading it again. */
export function startRouter(): void {
  addEventListener('popstate', () => {
    place.value = readPlace();
    requestAnimationFrame(() => scrollTo(0, scrolled.get(location.href) ?? 0));
  });
  document.addEventListener('click', (event) => {
    const target = event.target as Element;
    const row = target.closest('a, button, input, select, label')
      ? null
      : target.closest<HTMLElement>('tr[data-href]');
    if (row && getSelection()?.isCollapsed) return follow(event, new URL(row.dataset.href!, location.href));
    const link = target.closest('a');
    const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
    if (!link || !isPlain || event.defaultPrevented || link.target || link.hasAttribute('download')) return;
    follow(event, new URL(link.href));
  });
}

function follow(event: Event, url: URL): void {
  if (url.origin !== location.origin || url.hash || !url.pathname.startsWith(ROOT.pathname)) return;
  const to = url.pathname.slice(ROOT.pathname.length);
  if (!isView(to)) return;
  event.preventDefault();
  go(to + url.search);
}

/** Returns whether a path is a view, and not a file or an answer of the API. */
function isView(to: string): boolean {
  const [view, , ...rest] = to.replace(/\/$/, '').split('/');
  return Object.hasOwn(VIEWS, view!) && rest.length === 0;
}
