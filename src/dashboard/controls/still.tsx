import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

interface StillProps {
  children: ComponentChildren;
  /** Room for what may still come, px; none while there is nothing. */
  spare?: number;
}

/**
 * What comes and goes here does not move what stands below: the room that it once took is kept, until the view is left
 * or the window has another width.
 */
export function Still({ children, spare = 0 }: StillProps) {
  const outer = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let [width, most] = [0, 0];
    const sizes = new ResizeObserver(([entry]) => {
      if (!entry || !outer.current) return;
      const size = entry.contentRect;
      if (size.width !== width) [width, most] = [size.width, 0];
      if (most === 0) outer.current.style.minHeight = '';
      if (size.height <= most) return;
      most = Math.ceil(size.height) + spare;
      outer.current.style.minHeight = `${most}px`;
    });
    sizes.observe(inner.current!);
    return () => sizes.disconnect();
  }, []);
  return (
    <div ref={outer}>
      <div class="still" ref={inner}>
        {children}
      </div>
    </div>
  );
}
