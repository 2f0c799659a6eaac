import { path } from './router.ts';
import { Attention } from './shell/attention.tsx';
import { ConnectionBar } from './shell/connection-bar.tsx';
import { Help } from './shell/help.tsx';
import { StatusBar } from './shell/status-bar.tsx';
import { TopBar } from './shell/top-bar.tsx';
import { FleetView } from './views/fleet.tsx';
import { SpendView } from './views/spend.tsx';
import { WorkerView } from './views/worker.tsx';

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
        <Attention />
        <View />
      </main>
      <Help />
    </>
  );
}

function View() {
  const [view, id] = path.value.split('/').map(decodeURIComponent);
  switch (view) {
    case '':
      return <FleetView />;
    case 'workers':
      return id ? <WorkerView key={id} id={id} /> : <FleetView />;
    case 'spend':
      return <SpendView />;
    default:
      return (
        <p class="notice">
          There is no such view. <a href="./">Go to the fleet</a>
        </p>
      );
  }
}
