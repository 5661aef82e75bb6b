"use strict";
// Draws anew in place, so that nothing flickers and whoever has scrolled stays where he is. Without this script the browser loads
// the whole page anew. It asks the address of the page itself, and nothing else.
(() => {
  const form = document.getElementById("choice");
  const told = document.getElementById("told");
  const every = Number(document.body.dataset.refresh) * 1000;
  let looking = false;
  let last = new Date();

  function replace(old, fresh) {
    if (old && fresh && old.innerHTML !== fresh.innerHTML) old.replaceChildren(...fresh.childNodes);
  }

  async function look() {
    // Whoever is about to copy or to choose something is left alone.
    if (looking || document.hidden || !document.getSelection().isCollapsed) return;
    looking = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(60000) });
      if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      replace(document.querySelector("main"), fresh.querySelector("main"));
      if (!form.contains(document.activeElement)) replace(form, fresh.getElementById("choice"));
      last = new Date();
      told.hidden = true;
    } catch (error) {
      told.textContent = `Not drawn anew since ${last.toLocaleTimeString()}: ${error.message}.`;
      told.hidden = false;
    } finally {
      looking = false;
    }
  }

  form.addEventListener("change", () => form.requestSubmit());
  document.addEventListener("visibilitychange", look);
  setInterval(look, every);
})();
