#!/usr/bin/env node
import { endWith } from '../process/run-main.ts';
import { runSimulator } from './index.ts';

process.once('uncaughtException', endWith);

await runSimulator(process.argv.slice(2));
