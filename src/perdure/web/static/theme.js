// Light or dark: the choice of the system, unless the person has chosen. Loaded in the head, so that nothing flashes.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem("perdure.theme");
  const current = () => chosen() ?? (dark.matches ? "dark" : "light");

  /** @returns {HTMLElement | null} */
  const findToggle = () => document.querySelector("[data-theme-toggle]");

  function show() {
    root.dataset.theme = current();
    const button = findToggle();
    if (button) {
      const other = current() === "dark" ? "light" : "dark";
      button.title = `Switch to the ${other} theme`;
      button.setAttribute("aria-label", button.title);
    }
  }

  function toggle() {
    const next = current() === "dark" ? "light" : "dark";
    const usual = next === (dark.matches ? "dark" : "light");
    if (usual) localStorage.removeItem("perdure.theme");
    else localStorage.setItem("perdure.theme", next);
    show();
  }

  show();
  dark.addEventListener("change", show);
  addEventListener("storage", show);
  addEventListener("DOMContentLoaded", () => {
    findToggle()?.addEventListener("click", toggle);
    show();
  });
})();
