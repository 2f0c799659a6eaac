import { Age } from '../controls/age.tsx';
import { Command } from '../controls/copy-button.tsx';
import { fleet } from '../live.ts';
import { at } from '../router.ts';
import { session } from '../session.ts';

/** Shows the commands that a first-time visitor types, with this page's own address filled in. */
export function EmptyFleet() {
  const url = at('').replace(/\/$/, '');
  return (
    <section class="view empty" aria-labelledby="empty-title">
      <h1 id="empty-title">Add the first worker</h1>
      <p>
        A worker stands beside an engine such as vLLM, on any machine that reaches this address. It dials out,
        so no port of it has to be open.
      </p>
      {session.value?.asks_for_token === false ? <OnThisMachine url={url} /> : <Anywhere url={url} />}
      <Waiting />
    </section>
  );
}

/** Shows the commands for this machine, since a queue without tokens serves it alone. */
function OnThisMachine({ url }: { url: string }) {
  return (
    <ul>
      <li>
        <h2>With a GPU and vLLM on this machine</h2>
        <Command
          text={`${reaches(url)} \\\nVLLM_MODEL=Qwen/Qwen3-0.6B CASOLA_MAX_JOBS=16 npx worker-vllm supervise`}
        />
      </li>
      <li>
        <h2>Without a GPU</h2>
        <p>A simulated engine takes part as a real one would; its answers are made up.</p>
        <Command text={simulated(reaches(url))} />
      </li>
      <li>
        <h2>For workers on other machines</h2>
        <p>
          This queue has no tokens, so it serves this machine alone. Make one for workers and one for this
          page, stop the queue, and start it again for others:
        </p>
        <Command
          text={[
            'npx worker-vllm token create --scope worker',
            'npx worker-vllm token create --scope admin',
            `npx worker-vllm queue --host 0.0.0.0 --port ${location.port || 80}`,
          ].join('\n')}
          what="the commands"
        />
      </li>
    </ul>
  );
}

function Anywhere({ url }: { url: string }) {
  return (
    <ol>
      <li>
        <h2>Make a token for workers, on the queue's machine</h2>
        <p>It is shown once. The queue knows it within a second.</p>
        <Command text="npx worker-vllm token create --scope worker" />
      </li>
      <li>
        <h2>Start the worker and its engine, on the machine with the GPU</h2>
        <p>
          In a clone there, <code>./build.sh</code> builds the image first: none is published.
        </p>
        <Command
          text={[
            'docker run --gpus all --ipc=host \\',
            `  -e CASOLA_WS_URL=${webSocketOf(url)} -e CASOLA_API_URL=${url} -e CASOLA_LOGS_URL=${url}/api/logs \\`,
            '  -e CASOLA_API_TOKEN=PASTE_THE_TOKEN -e CASOLA_CONFIG_ID=qwen-small -e CASOLA_MAX_JOBS=16 \\',
            '  -e VLLM_MODEL=Qwen/Qwen3-0.6B ghcr.io/worker-vllm/worker-vllm',
          ].join('\n')}
        />
        <p>
          Without Docker: the same variables in front of <code>npx worker-vllm supervise</code>, after{' '}
          <code>npm ci</code>.
        </p>
      </li>
      <li>
        <h2>Or without a GPU</h2>
        <p>A simulated engine takes part as a real one would; its answers are made up.</p>
        <Command text={simulated(`${reaches(url)} CASOLA_API_TOKEN=PASTE_THE_TOKEN`)} />
      </li>
    </ol>
  );
}

/** Returns the variables that lead a worker to this queue. */
function reaches(url: string): string {
  return `CASOLA_WS_URL=${webSocketOf(url)} CASOLA_API_URL=${url} \\\nCASOLA_LOGS_URL=${url}/api/logs CASOLA_CONFIG_ID=first`;
}

function webSocketOf(url: string): string {
  return url.replace(/^http/, 'ws');
}

function simulated(variables: string): string {
  return `${variables} \\\nENGINE=simulator VLLM_MODEL=simulated VLLM_PORT=8001 CASOLA_MAX_JOBS=8 npx worker-vllm supervise`;
}

/** Shows whether a worker has tried to connect so far. */
function Waiting() {
  const refused = fleet.value?.attention.find(({ code }) => code === 'token_refused');
  return (
    <p class="waiting" role="status">
      <span class="pulse" aria-hidden="true" /> Waiting for a worker …{' '}
      {refused ? (
        <span class="warn">
          {refused.text} {refused.advice} (<Age at={refused.since} /> ago)
        </span>
      ) : (
        'none has connected yet. This page changes by itself as soon as one does.'
      )}
    </p>
  );
}
