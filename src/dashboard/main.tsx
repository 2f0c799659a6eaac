import { render } from 'preact';
import { App } from './app.tsx';
import { startClock } from './clock.ts';
import { startShortcuts } from './keyboard.ts';
import { startLive } from './live.ts';
import { startRouter } from './router.ts';
import './styles/main.css';

startRouter();
startClock();
startShortcuts();
startLive();
render(<App />, document.getElementById('page')!);
