// Checks the site in a folder: HTML, links and anchors, and each page in Chromium at two widths, light and dark, with axe-core.
// Screenshots of some pages are in FOLDER-screenshots. make site-check runs it. A third argument opens only the pages that match it.
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parse } from "parse5";
import { chromium } from "playwright-core";

const [folder, browser] = process.argv.slice(2, 4).map((path) => resolve(path));
const only = process.argv[4] && new RegExp(process.argv[4]);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const shown = ["index.html", "docs/index.html", "docs/tutorial.html", "docs/how-to.html", "docs/alerts.html", "docs/reference-fields.html", "docs/concepts.html",
  "docs/from-kyverno.html", "docs/recipes.html", "manifests/samples/recipes.html"];
const faults = [];
const fault = (page, text) => faults.push(`${page}: ${text}`);

const pages = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".html")).sort();
if (pages.length < 30) fault(folder, `only ${pages.length} pages`);

// read returns the ids and the links of a page, and reports faults of its HTML.
function read(page) {
  const ids = new Set();
  const links = [];
  const onParseError = (e) => fault(page, `HTML, line ${e.startLine}: ${e.code}`);
  const walk = (node) => {
    for (const { name, value } of node.attrs ?? []) {
      if (name === "id" && ids.has(value)) fault(page, `HTML: id ${value} occurs twice`);
      if (name === "id") ids.add(value);
      if (name === "href" || name === "src") links.push(value);
    }
    (node.childNodes ?? []).forEach(walk);
    if (node.content) walk(node.content);
  };
  walk(parse(readFileSync(join(folder, page), "utf8"), { onParseError, sourceCodeLocationInfo: true }));
  return { ids, links };
}

const content = new Map(pages.map((page) => [page, read(page)]));
let links = 0;
for (const [page, { links: all }] of content) {
  for (const link of all.filter((link) => !/^([a-z]+:|\/\/)/.test(link) && link !== "#")) {
    links++;
    if (!URL.canParse(link, pathToFileURL(join(folder, page)))) {
      fault(page, `links to ${link}, which is no address`);
      continue;
    }
    const url = new URL(link, pathToFileURL(join(folder, page)));
    const path = fileURLToPath(new URL(url.pathname, "file://"));
    const target = relative(folder, path);
    const anchor = decodeURIComponent(url.hash.slice(1));
    if (!existsSync(path) || statSync(path).isDirectory()) fault(page, `links to ${link}, which does not exist`);
    else if (anchor && content.has(target) && !content.get(target).ids.has(anchor)) fault(page, `links to ${link}, which has no such anchor`);
  }
}

const chrome = await chromium.launch({ executablePath: browser, args: ["--no-sandbox", "--allow-file-access-from-files"] });
const screenshots = `${folder}-screenshots`;
mkdirSync(screenshots, { recursive: true });

async function visit(page, width, colorScheme) {
  const context = await chrome.newContext({ viewport: { width, height: 900 }, colorScheme, bypassCSP: true });
  const tab = await context.newPage();
  const where = `${page} (${width} wide, ${colorScheme})`;
  tab.on("pageerror", (error) => fault(where, `script: ${error.message}`));
  tab.on("request", (request) => /^https?:/.test(request.url()) && fault(where, `asks ${request.url()}: the site has to work from a folder`));
  await tab.goto(pathToFileURL(join(folder, page)).href, { waitUntil: "load" });
  const over = await tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (over > 1) fault(where, `is ${over} pixels wider than the window`);
  await tab.evaluate(axe);
  const { violations } = await tab.evaluate(() => axe.run({ resultTypes: ["violations"] }));
  for (const { id, help, nodes } of violations) fault(where, `axe ${id}: ${help}, ${nodes.length} times, such as ${nodes[0].html.slice(0, 200)}`);
  if (only || shown.includes(page)) await tab.screenshot({ path: join(screenshots, `${page.replaceAll("/", "-")}-${width}-${colorScheme}.png`) });
  const filter = tab.locator(".gallery-filter");
  if (await filter.count()) {
    const rows = tab.locator(".content table tbody tr:visible");
    const all = await rows.count();
    await filter.fill("kind pod");
    if (all < 5 || (await rows.count()) === 0 || (await rows.count()) >= all) fault(where, `the filter shows ${await rows.count()} of ${all} files`);
  }
  const versions = tab.locator(".site-versions");
  if (await versions.count()) {
    for (const version of await versions.locator("option").evaluateAll((options) => options.map((option) => option.value))) {
      await tab.goto(pathToFileURL(join(folder, page)).href);
      if ((await versions.inputValue()) === version) continue;
      await Promise.all([tab.waitForNavigation(), versions.selectOption(version)]);
      if (fileURLToPath(tab.url()) !== join(folder, version, "index.html")) fault(where, `version ${version || "newest"} leads to ${tab.url()}`);
    }
  }
  await context.close();
}

const visits = pages.filter((page) => !only || only.test(page)).flatMap((page) => [[page, 1280, "light"], [page, 390, "light"], [page, 1280, "dark"], [page, 390, "dark"]]);
const visited = visits.length;
await Promise.all(cpus().map(async () => { while (visits.length) await visit(...visits.pop()); }));
await chrome.close();

console.log(faults.sort().join("\n"));
console.log(`${pages.length} pages, ${links} links, ${visited} visits: ${faults.length} faults`);
process.exit(faults.length ? 1 : 0);
