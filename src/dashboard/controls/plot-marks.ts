import type uPlot from 'uplot';

/** An event at a moment, epoch ms. */
export interface TimeMark {
  at: number;
  kind: 'launched' | 'started' | 'ended' | 'failed';
  text: string;
}

/** The distance of a mark from the values below it, and half of its size, px. */
const ABOVE = 6;
const HALF = 3.5;
/** A mark that is closer to another than this, px, is left out; failures come first. */
const APART = 9;

/** The opacity of the line below a failure. */
const FAINT = 0.5;

/**
 * Draws marks above the values, in the shapes by which the page tells states: a hollow circle for what was launched, a
 * full one for what is ready, a bar for what has ended. What failed is a line through the chart.
 */
export function drawMarks(
  { ctx, bbox, valToPos }: uPlot,
  marks: readonly TimeMark[],
  colors: Record<TimeMark['kind'], string>,
): void {
  const scale = devicePixelRatio;
  const [y, half] = [bbox.top - ABOVE * scale, HALF * scale];
  const drawn: number[] = [];
  ctx.save();
  ctx.lineWidth = 1.5 * scale;
  for (const { at, kind } of [...marks].sort((a, b) => rank(a) - rank(b))) {
    const x = Math.round(valToPos(at / 1000, 'x', true)) + 0.5;
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    if (drawn.some((other) => Math.abs(x - other) < APART * scale)) continue;
    drawn.push(x);
    ctx.strokeStyle = colors[kind];
    ctx.fillStyle = colors[kind];
    ctx.beginPath();
    if (kind === 'launched' || kind === 'started') {
      ctx.arc(x, y, half - (kind === 'launched' ? scale : 0), 0, 2 * Math.PI);
    } else if (kind === 'ended') {
      ctx.moveTo(x - half, y);
      ctx.lineTo(x + half, y);
    } else {
      ctx.rect(x - half, y - half, 2 * half, 2 * half);
      ctx.globalAlpha = FAINT;
      ctx.fillRect(x - scale / 2, y, scale, bbox.top + bbox.height - y);
      ctx.globalAlpha = 1;
    }
    if (kind === 'started' || kind === 'failed') ctx.fill();
    ctx.stroke();
  }
  ctx.restore();
}

function rank({ kind }: TimeMark): number {
  return kind === 'failed' ? 0 : 1;
}
