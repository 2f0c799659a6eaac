import { runMain } from '../process/index.ts';
import { runSupervisor } from './index.ts';

// The supervisor as a process: its exit code is the container's.
await runMain(() => runSupervisor(process.env));
