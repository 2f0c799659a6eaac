#!/usr/bin/env node
import { runSimulator } from './index.ts';

await runSimulator(process.argv.slice(2));
