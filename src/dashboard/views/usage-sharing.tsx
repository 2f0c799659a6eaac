import type { LimitView, PoolSharing } from '../../protocol/tokens.ts';
import * as format from '../../show/format.ts';
import { Progress } from '../controls/figures.tsx';
import { Mark } from '../controls/marks.tsx';
import { usePolled } from '../polled.ts';
import { nameOf, nearEnd, sharingInWords, tokensInWords } from '../usage.ts';

/** The time between two reads, ms. */
const LOOK_MS = 5000;

/** Shows pools in which somebody waits. */
export function Sharing() {
  const { data } = usePolled<{ pools: PoolSharing[] }>('api/sharing', LOOK_MS).value;
  const pools = (data?.pools ?? []).flatMap((pool) => {
    const words = sharingInWords(pool);
    return words === null ? [] : [{ pool, words }];
  });
  if (pools.length === 0) return null;
  return (
    <section aria-labelledby="usage-sharing">
      <h2 id="usage-sharing">Who waits for whom</h2>
      {pools.map(({ pool, words }) => (
        <article key={pool.config_id} class="sharing">
          <p>
            <span class="id">{pool.config_id}</span>: {words}
          </p>
          <ul>
            {pool.tenants.slice(0, MOST_SHARES).map(({ tenant, waiting, tokens }) => (
              <li key={tenant ?? ''}>
                <span class="name" title={nameOf(tenant)}>
                  {nameOf(tenant)}
                </span>
                <Progress
                  share={pool.tokens === 0 ? 0 : tokens / pool.tokens}
                  label={`Share of the last hour's tokens: ${nameOf(tenant)}`}
                />
                <span class="number dim">
                  {tokensInWords(tokens)} tokens, {waiting === 0 ? 'none' : format.count(waiting)} waiting
                </span>
              </li>
            ))}
          </ul>
          {pool.tenants.length > MOST_SHARES && (
            <p class="dim">and {format.plural(pool.tenants.length - MOST_SHARES, 'tenant')} more</p>
          )}
        </article>
      ))}
    </section>
  );
}

const MOST_SHARES = 8;

/** Shows tokens whose limits are nearly used, or hold something back. */
export function NearLimits() {
  const { data } = usePolled<{ limits: LimitView[] }>('api/limits', LOOK_MS).value;
  const near = (data?.limits ?? []).flatMap((limit) => nearEnd(limit) ?? []);
  if (near.length === 0) return null;
  return (
    <section aria-labelledby="usage-limits">
      <h2 id="usage-limits">Limits at or near their end</h2>
      <ul class="near-limits">
        {near.map(({ key, who, what }) => (
          <li key={key}>
            <Mark shape="triangle" label="Warning:" /> <strong>{who.tenant}</strong>
            {who.rest}: {what}
          </li>
        ))}
      </ul>
    </section>
  );
}
