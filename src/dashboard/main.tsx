import { effect } from '@preact/signals';
import { type FunctionComponent, render } from 'preact';
import { startClock } from './clock.ts';
import { startShortcuts } from './keyboard.ts';
import { startLive } from './live.ts';
import { segments, startRouter, VIEWS } from './router.ts';
import { isSignedOut, loadSession } from './session.ts';
import './styles/main.css';
import { Attention } from './shell/attention.tsx';
import { ConnectionBar, StatusBar } from './shell/status-bar.tsx';
import { Help, TopBar } from './shell/top-bar.tsx';
import { AlertsView } from './views/alerts.tsx';
import { AuditView } from './views/audit.tsx';
import { BatchesView } from './views/batches.tsx';
import { FleetView } from './views/fleet.tsx';
import { JobView } from './views/job.tsx';
import { JobsView } from './views/jobs.tsx';
import { NotFoundView } from './views/not-found.tsx';
import { QueueView } from './views/queue.tsx';
import { RequestsView } from './views/requests.tsx';
import { ResponseView } from './views/response.tsx';
import { ResponsesView } from './views/responses.tsx';
import { SignInView } from './views/sign-in.tsx';
import { SpendView } from './views/spend.tsx';
import { TokensView } from './views/tokens.tsx';
import { TryView } from './views/try.tsx';
import { UsageView } from './views/usage.tsx';
import { WorkerView } from './views/worker.tsx';

/** A view's components: `all` shows all subjects of a kind, `one` shows one of them. */
interface Drawn {
  all?: FunctionComponent;
  one?: FunctionComponent<{ id: string }>;
}

const DRAWN = new Map<string, Drawn>([
  ['', { all: FleetView }],
  ['workers', { one: WorkerView }],
  ['queue', { all: QueueView }],
  ['requests', { all: RequestsView }],
  ['responses', { all: ResponsesView, one: ResponseView }],
  ['jobs', { all: JobsView, one: JobView }],
  ['batches', { all: BatchesView }],
  ['usage', { all: UsageView }],
  ['spend', { all: SpendView }],
  ['try', { all: TryView }],
  ['tokens', { all: TokensView }],
  ['audit', { all: AuditView }],
  ['alerts', { all: AlertsView }],
]);

// The title tells tabs and entries of the history apart.
effect(() => {
  const [view = '', id] = segments.value;
  document.title = `${id ?? VIEWS[view]?.name ?? 'No such page'} · worker-vllm`;
});

function App() {
  return (
    <>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <TopBar />
      <StatusBar />
      <ConnectionBar />
      <main id="content" tabIndex={-1}>
        {isSignedOut.value ? (
          <SignInView />
        ) : (
          <>
            <Attention />
            <View />
          </>
        )}
      </main>
      <Help />
    </>
  );
}

function View() {
  const [name = '', id, ...rest] = segments.value;
  const { all: All, one: One } = DRAWN.get(name) ?? {};
  if (id && rest.length === 0 && One) return <One key={id} id={id} />;
  return id === undefined && All ? <All /> : <NotFoundView />;
}

startRouter();
startClock();
startShortcuts();
void startLive();
void loadSession();
render(<App />, document.getElementById('page')!);
