// Light or dark: what the system says, unless the person has chosen. Loaded in the head, so that nothing flashes.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem("perdure.theme");
  const current = () => chosen() ?? (dark.matches ? "dark" : "light");

  function show() {
    root.dataset.theme = current();
    const button = document.querySelector("[data-theme-toggle]");
    if (button) {
      const other = current() === "dark" ? "light" : "dark";
      button.setAttribute("aria-label", `Switch to the ${other} theme`);
      button.title = button.getAttribute("aria-label");
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
    document.querySelector("[data-theme-toggle]")?.addEventListener("click", toggle);
    show();
  });
})();
