import { render } from 'preact';
import { App } from './app.tsx';
import { startClock } from './clock.ts';
import { startShortcuts } from './keyboard.ts';
import { startLive } from './live.ts';
import { startRouter } from './router.ts';
import { loadSession } from './session.ts';
import './styles/main.css';

startRouter();
startClock();
startShortcuts();
void startLive();
void loadSession();
render(<App />, document.getElementById('page')!);
