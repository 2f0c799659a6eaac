import { useEffect, useRef, useState } from 'preact/hooks';
import { isUtc, switchUtc } from '../clock.ts';
import { Mark, type Shape } from '../controls/marks.tsx';
import { isTouched } from '../controls/window.ts';
import { isHelpOpen, SHORTCUTS } from '../keyboard.ts';
import { fleet } from '../live.ts';
import { go, href, path, VIEWS } from '../router.ts';
import { isAdmin, isSignedOut, session, signOut } from '../session.ts';
import { nextTheme, switchTheme, type Theme, theme } from '../theme.ts';
import { VerdictMark } from './status-bar.tsx';

const THEME_SHAPES: Record<Theme, Shape> = { system: 'half', light: 'hollow', dark: 'full' };

/** The most suggestions; in a fleet of a thousand, nobody would read more. */
const MOST_SUGGESTIONS = 12;

/** The views without a link in the bar, each with the one that leads to it. */
const LED_TO_BY: Record<string, string> = { workers: '', responses: 'requests' };

/** The id of the menu, by which its button opens it. */
const MENU = 'menu';

/**
 * Shows links to all views, the switches of the page, and the search for any id. A window too narrow for all links has
 * them in a menu, whose button names the open view.
 */
export function TopBar() {
  const view = path.value.split('/')[0]!;
  const current = LED_TO_BY[view] ?? view;
  const menu = useRef<HTMLDivElement>(null);
  // Without a token there is nothing to go to.
  if (isSignedOut.value) {
    return (
      <header class="top-bar">
        <strong>worker-vllm</strong>
        <Switches />
      </header>
    );
  }
  return (
    <header class="top-bar">
      <button type="button" class="menu-button" popovertarget={MENU}>
        <span class="unseen">Views: </span>
        <MenuMark /> {VIEWS[view]?.name ?? 'Views'}
      </button>
      <div class="menu" id={MENU} popover="auto" ref={menu}>
        <Views current={current} onOpen={() => menu.current?.hidePopover()} />
        <Switches />
      </div>
      <VerdictMark />
      <Search />
    </header>
  );
}

function MenuMark() {
  return (
    <svg class="mark" width="14" height="12" viewBox="0 0 14 12" aria-hidden="true">
      <path class="stroke" d="M1 2h12M1 6h12M1 10h12" />
    </svg>
  );
}

function Views({ current, onOpen }: { current: string; onOpen(): void }) {
  const views = Object.entries(VIEWS).filter(
    ([path, { key, isForAdmins }]) =>
      key !== undefined &&
      (!isForAdmins || isAdmin.value) &&
      // A queue without tokens has none to list.
      (path !== 'tokens' || session.value?.asks_for_token),
  );
  return (
    <nav aria-label="Views">
      {views.map(([to, { name }]) => (
        <a key={to} href={href(to)} aria-current={to === current ? 'page' : undefined} onClick={onOpen}>
          {name}
        </a>
      ))}
    </nav>
  );
}

/** Shows the buttons that change how the page looks, and the one that signs out. */
function Switches() {
  return (
    <div class="switches">
      <button
        type="button"
        class="quiet"
        aria-pressed={isUtc.value}
        title="Show times in UTC (Shift T)"
        onClick={switchUtc}
      >
        UTC
      </button>
      <button
        type="button"
        class="quiet theme"
        aria-label={`Theme: ${theme.value}. Switch to ${nextTheme.value}`}
        title={`Theme: ${theme.value}. Switch to ${nextTheme.value}`}
        onClick={switchTheme}
      >
        <Mark shape={THEME_SHAPES[theme.value]} /> <span class="in-menu">Theme</span>
      </button>
      {session.value?.name && (
        <button
          type="button"
          class="quiet"
          title={`Signed in with the token ${session.value.name} (${session.value.scopes.join(', ')})`}
          onClick={signOut}
        >
          Sign out
        </button>
      )}
      <button
        type="button"
        class="quiet keys"
        aria-label="Keyboard shortcuts"
        title="Keyboard shortcuts (?)"
        onClick={() => (isHelpOpen.value = true)}
      >
        ?
      </button>
    </div>
  );
}

/**
 * Shows the search: a worker's id opens the worker; any other id opens its request, or its job if that is stored and
 * has not ended.
 */
function Search() {
  const [text, setText] = useState('');
  const wanted = text.trim();
  const workers = wanted
    ? (fleet.value?.workers ?? []).filter(({ worker_id }) => worker_id.includes(wanted))
    : [];
  const open = (event: Event) => {
    event.preventDefault();
    if (!wanted) return;
    const worker = workers.find(({ worker_id }) => worker_id === wanted) ?? workers[0];
    go(
      worker
        ? `workers/${encodeURIComponent(worker.worker_id)}`
        : `requests?id=${encodeURIComponent(wanted)}`,
    );
    setText('');
  };
  return (
    <search>
      <form onSubmit={open}>
        <input
          id="search"
          type="search"
          placeholder={isTouched ? 'Request or worker id' : 'Request or worker id  /'}
          aria-label="Search a request, a job or a worker by its id"
          autocomplete="off"
          spellcheck={false}
          list="search-workers"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <datalist id="search-workers">
          {workers.slice(0, MOST_SUGGESTIONS).map(({ worker_id }) => (
            <option key={worker_id} value={worker_id} />
          ))}
        </datalist>
      </form>
    </search>
  );
}

/** Shows the shortcuts, on `?`. */
export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = isHelpOpen.value;
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={() => (isHelpOpen.value = false)}>
      <h2 id="help-title">Keyboard shortcuts</h2>
      <dl class="shortcuts">
        {SHORTCUTS.map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              {keys.split(' ').map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}
