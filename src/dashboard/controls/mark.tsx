/** The shape of a mark, which tells a state beside its word; colour only supports both. */
export type Shape = 'full' | 'tick' | 'ring' | 'hollow' | 'half' | 'bar' | 'triangle' | 'cross' | 'dashed';

/** The circumference of the ring, so that shares of it can be drawn. */
const RING = 2 * Math.PI * 4.5;

interface MarkProps {
  shape: Shape;
  /** The share of a ring that is filled, from 0 to 1; left out where it is unknown. */
  share?: number | null;
  /** The text that is read aloud where no word stands beside the mark. */
  label?: string;
}

export function Mark({ shape, share, label }: MarkProps) {
  const isUnknown = shape === 'ring' && share == null;
  return (
    <>
      <svg
        class={`mark ${shape}${isUnknown ? ' unknown' : ''}`}
        viewBox="0 0 12 12"
        width="12"
        height="12"
        aria-hidden="true"
      >
        <Drawing shape={shape} share={share ?? null} />
      </svg>
      {label && <span class="unseen">{label}</span>}
    </>
  );
}

function Drawing({ shape, share }: { shape: Shape; share: number | null }) {
  switch (shape) {
    case 'full':
      return <circle class="fill" cx="6" cy="6" r="5" />;
    case 'tick':
      return <path class="stroke" d="M1.5 6.5 4.5 9.5 10.5 2.5" />;
    case 'ring':
      return (
        <>
          <circle class="stroke faint" cx="6" cy="6" r="4.5" />
          <circle
            class="stroke turn"
            cx="6"
            cy="6"
            r="4.5"
            stroke-dasharray={`${RING * (share ?? 0.3)} ${RING}`}
            transform="rotate(-90 6 6)"
          />
        </>
      );
    case 'hollow':
      return <circle class="stroke" cx="6" cy="6" r="4.5" />;
    case 'half':
      return (
        <>
          <circle class="stroke" cx="6" cy="6" r="4.5" />
          <path class="fill" d="M6 1.5a4.5 4.5 0 0 1 0 9z" />
        </>
      );
    case 'bar':
      return <path class="stroke" d="M1.5 6h9" />;
    case 'triangle':
      return <path class="fill" d="M6 1 11.5 11H.5z" />;
    case 'cross':
      return (
        <>
          <rect class="fill" x=".5" y=".5" width="11" height="11" rx="1.5" />
          <path class="stroke inverse" d="M3.5 3.5l5 5m0-5-5 5" />
        </>
      );
    case 'dashed':
      return <circle class="stroke" cx="6" cy="6" r="4.5" stroke-dasharray="2 1.53" />;
  }
}
