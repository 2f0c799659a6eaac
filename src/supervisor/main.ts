import { runMain } from '../process/index.ts';
import { runSupervisor } from './index.ts';

// Runs the supervisor as a process, whose exit code is the container's.
await runMain(() => runSupervisor(process.env));
