// The rail's menu on a phone: closed by going somewhere, by Escape and by touching the page.

const menu = document.getElementById("menu");

function close(focus) {
  menu.open = false;
  if (focus) menu.querySelector("summary").focus();
}

if (menu) {
  const rail = menu.closest(".rail");
  rail.addEventListener("click", (event) => event.target.closest("nav a") && close(false));
  document.addEventListener("pointerdown", (event) => menu.open && !rail.contains(event.target) && close(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && menu.open) close(rail.contains(document.activeElement));
  });
  // A page that the browser kept comes back as it was left.
  addEventListener("pageshow", () => close(false));
}
