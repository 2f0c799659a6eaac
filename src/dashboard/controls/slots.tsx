import { count } from '../../show/format.ts';

/** More slots than a person would count are drawn as a bar. */
const MOST_BOXES = 16;
const BOX = { width: 6, height: 12, step: 8 };

/** Shows places for jobs: those in use are filled. */
export function Slots({ running, slots }: { running: number | null; slots: number | null }) {
  const taken = Math.max(0, Math.min(running ?? 0, slots ?? 0));
  return (
    <span class="slots">
      {slots !== null &&
        slots > 0 &&
        (slots <= MOST_BOXES ? <Boxes taken={taken} slots={slots} /> : <Bar share={taken / slots} />)}
      <span class="number">
        {count(running)}/{count(slots)}
      </span>
    </span>
  );
}

function Boxes({ taken, slots }: { taken: number; slots: number }) {
  const boxes = (from: number, to: number) =>
    Array.from(
      { length: to - from },
      (_, i) => `M${(from + i) * BOX.step + 0.5} .5h${BOX.width - 1}v${BOX.height - 1}h${1 - BOX.width}z`,
    ).join('');
  return (
    <svg width={slots * BOX.step} height={BOX.height} aria-hidden="true">
      <path class="free" d={boxes(taken, slots)} />
      <path class="taken" d={boxes(0, taken)} />
    </svg>
  );
}

function Bar({ share }: { share: number }) {
  const width = MOST_BOXES * BOX.step - 2;
  return (
    <svg width={MOST_BOXES * BOX.step} height={BOX.height} aria-hidden="true">
      <path class="free" d={`M.5 .5h${width - 1}v${BOX.height - 1}h${1 - width}z`} />
      <path class="taken" d={share > 0 ? `M0 0h${(width * share).toFixed(1)}v${BOX.height}H0z` : ''} />
    </svg>
  );
}
