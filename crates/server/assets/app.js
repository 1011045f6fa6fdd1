// What pages do beyond reading. Each module looks for the elements it serves and leaves everything else alone; without
// any of them every page still reads and every form still works.

import "./countdown.js";
import "./live.js";
import "./time.js";
import "./copy.js";
import "./menu.js";
import "./palette.js";
import "./keys.js";
import "./suggest.js";
import "./letters.js";
import "./panel.js";
import "./viewer.js";
