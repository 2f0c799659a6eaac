import { effect } from '@preact/signals';
import { href, segments } from './router.ts';
import { isSignedOut } from './session.ts';
import { Attention } from './shell/attention.tsx';
import { ConnectionBar } from './shell/connection-bar.tsx';
import { Help } from './shell/help.tsx';
import { StatusBar } from './shell/status-bar.tsx';
import { TopBar } from './shell/top-bar.tsx';
import { AuditView } from './views/audit.tsx';
import { BatchesView } from './views/batches.tsx';
import { FleetView } from './views/fleet.tsx';
import { JobView } from './views/job.tsx';
import { JobsView } from './views/jobs.tsx';
import { QueueView } from './views/queue.tsx';
import { RequestsView } from './views/requests.tsx';
import { SignInView } from './views/sign-in.tsx';
import { SpendView } from './views/spend.tsx';
import { TokensView } from './views/tokens.tsx';
import { TryView } from './views/try.tsx';
import { UsageView } from './views/usage.tsx';
import { WorkerView } from './views/worker.tsx';

const TITLES: Record<string, string> = {
  queue: 'Queue',
  requests: 'Requests',
  jobs: 'Jobs',
  batches: 'Batches',
  usage: 'Usage',
  spend: 'Spend',
  try: 'Try it',
  tokens: 'Tokens',
  audit: 'Audit',
};

// Tabs and histories are told apart by it.
effect(() => {
  const [view = '', id] = segments.value;
  document.title = `${id ?? TITLES[view] ?? 'Fleet'} · worker-vllm`;
});

export function App() {
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
  const [view, id] = segments.value;
  switch (view) {
    case '':
      return <FleetView />;
    case 'workers':
      return id ? <WorkerView key={id} id={id} /> : <FleetView />;
    case 'queue':
      return <QueueView />;
    case 'requests':
      return <RequestsView />;
    case 'jobs':
      return id ? <JobView key={id} id={id} /> : <JobsView />;
    case 'batches':
      return <BatchesView />;
    case 'try':
      return <TryView />;
    case 'tokens':
      return <TokensView />;
    case 'audit':
      return <AuditView />;
    case 'usage':
      return <UsageView />;
    case 'spend':
      return <SpendView />;
    default:
      return (
        <p class="notice">
          There is no such view. <a href={href('')}>Go to the fleet</a>
        </p>
      );
  }
}
