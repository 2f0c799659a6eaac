import { useLayoutEffect } from 'preact/hooks';

/**
 * Gives the focus back when a panel is closed: to what had it when the panel was opened, such as the button that opened
 * it, or to the view if that is gone. Else the next Tab would begin at the top of the page.
 */
export function useFocusBack(panel: { current: HTMLElement | null }): void {
  useLayoutEffect(() => {
    const opened = panel.current;
    const opener = document.activeElement;
    return () => {
      const { activeElement } = document;
      // Somebody may work elsewhere by now. A pressed button that is disabled while it acts has lost the focus.
      if (activeElement !== document.body && !opened?.contains(activeElement)) return;
      const isThere = opener !== document.body && opener?.isConnected;
      const next = isThere ? opener : document.getElementById('content');
      (next as HTMLElement | null)?.focus({ preventScroll: !isThere });
    };
  }, []);
}
