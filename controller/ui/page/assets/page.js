// What the page does besides htmx: it keeps ages true, copies lines, says whether the page is
// live, and takes nothing from the reader when the page changes. Without it, reload.
(function () {
  'use strict';
  document.documentElement.classList.add('scripted');

  // Ages, in the words that the server uses.
  function age(seconds) {
    var s = Math.max(0, Math.floor(seconds));
    if (s < 120) return s + 's';
    if (s < 600) return Math.floor(s / 60) + 'm' + ('0' + s % 60).slice(-2) + 's';
    if (s < 3 * 3600) return Math.floor(s / 60) + 'm';
    if (s < 48 * 3600) return Math.floor(s / 3600) + 'h';
    return Math.floor(s / 86400) + 'd';
  }
  function relative(seconds) { return seconds < 0 ? 'in ' + age(-seconds) : age(seconds) + ' ago'; }
  function relativeMinute(seconds) {
    if (seconds < 60) return '<1m ago';
    return seconds < 600 ? Math.floor(seconds / 60) + 'm ago' : relative(seconds);
  }
  function shown(time, now) {
    var seconds = (now - Date.parse(time.dateTime)) / 1000;
    switch (time.dataset.show) {
      case 'age': return relative(seconds);
      case 'minute': return relativeMinute(seconds);
      case 'deadline': return (seconds < 0 ? '' : 'passed ') + relative(seconds);
      case 'for': return age(seconds);
      case 'both': return time.title + ' (' + relative(seconds) + ')';
    }
  }
  function refreshTimes() {
    var now = Date.now() + skew;
    document.querySelectorAll('time[data-show]').forEach(function (time) {
      var text = shown(time, now);
      if (text && time.textContent !== text && !selected(time)) time.textContent = text;
    });
  }
  // A browser lays a whole table out anew when one age in it changes, so those of a long page
  // change every ten seconds.
  var passes = 0;
  function passSecond() {
    if (passes++ % 10 === 0 || document.querySelectorAll('time[data-show]').length < 50) refreshTimes();
  }
  var skew = 0; // between the controller's clock and this one
  function selected(element) {
    var s = window.getSelection();
    return s && !s.isCollapsed && s.rangeCount > 0 && s.containsNode(element, true);
  }

  // Copying.
  document.addEventListener('click', function (event) {
    var button = event.target.closest && event.target.closest('[data-copy]');
    if (!button) return;
    function say(text) {
      button.textContent = text;
      setTimeout(function () { button.textContent = 'Copy'; }, 1600);
    }
    var fallback = function () {
      var range = document.createRange();
      range.selectNodeContents(button.previousElementSibling);
      var s = window.getSelection();
      s.removeAllRanges();
      s.addRange(range);
      say('Selected');
    };
    if (navigator.clipboard) navigator.clipboard.writeText(button.dataset.copy).then(function () { say('Copied'); }, fallback);
    else fallback();
  });

  // Of a row of squares Tab reaches one, the arrow keys the others.
  function isSquare(element) { return element.parentNode && element.parentNode.className === 'squares'; }
  function shows(element) { return element.getClientRects().length > 0; }
  function setStops() {
    var rows = Array.prototype.map.call(document.querySelectorAll('.squares'), function (row) {
      var all = Array.prototype.slice.call(row.children);
      return { all: all, stop: all.find(shows) };
    });
    rows.forEach(function (row) { row.all.forEach(function (a) { a.tabIndex = a === row.stop ? 0 : -1; }); });
  }
  document.addEventListener('focusin', function (event) {
    if (!isSquare(event.target)) return;
    var before = event.target.parentNode.querySelector('[tabindex="0"]');
    if (before) before.tabIndex = -1;
    event.target.tabIndex = 0;
  });
  document.addEventListener('keydown', function (event) {
    if (!isSquare(event.target) || event.altKey || event.ctrlKey || event.metaKey) return;
    var all = Array.prototype.filter.call(event.target.parentNode.children, shows), at = all.indexOf(event.target);
    var to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (all[to]) all[to].focus();
  });
  document.addEventListener('toggle', setStops, true);
  window.addEventListener('resize', setStops);
  setStops();

  if (typeof htmx === 'undefined') return;
  var live = document.getElementById('live');
  var connection = document.getElementById('connection');
  if (!live || !connection || !live.hasAttribute('hx-get')) { setInterval(passSecond, 1000); refreshTimes(); return; }

  // Whether the page is live.
  var lostAt = null;
  function say(state) {
    if (state === 'live') lostAt = null;
    else if (!lostAt) lostAt = new Date();
    var text = state === 'live' ? 'Live' : 'Connection lost since ' + lostAt.toISOString().slice(11, 19);
    if (connection.textContent !== text) connection.textContent = text;
    connection.dataset.state = state;
  }

  // One stream, while the page is seen: a browser has six connections for one host. What has
  // changed in between is told when the stream opens.
  htmx.createEventSource = function (url) {
    var source = null, listeners = [], stream = { readyState: EventSource.CONNECTING, onopen: null, onerror: null };
    function open() {
      source = new EventSource(url);
      source.onopen = function (e) { stream.readyState = source.readyState; say('live'); if (stream.onopen) stream.onopen(e); };
      source.onerror = function (e) {
        stream.readyState = source.readyState;
        say('lost');
        if (source.readyState === EventSource.CLOSED) { stream.close(); ask(); }
        if (stream.onerror) stream.onerror(e);
      };
      listeners.forEach(function (l) { source.addEventListener(l[0], l[1]); });
    }
    function seen() {
      if (document.hidden && source) { source.close(); source = null; }
      else if (!document.hidden && !source) open();
    }
    stream.addEventListener = function (name, listener) {
      listeners.push([name, listener]);
      if (source) source.addEventListener(name, listener);
    };
    stream.removeEventListener = function (name, listener) {
      listeners = listeners.filter(function (l) { return l[0] !== name || l[1] !== listener; });
      if (source) source.removeEventListener(name, listener);
    };
    stream.close = function () {
      document.removeEventListener('visibilitychange', seen);
      if (source) source.close();
      source = null;
      stream.readyState = EventSource.CLOSED;
    };
    document.addEventListener('visibilitychange', seen);
    if (!document.hidden) open();
    return stream;
  };

  // The part that changes is asked for with what it was, and stays if it is the same.
  var etag = live.dataset.etag || '', waiting = false;
  function ask() { htmx.trigger(live, 'refresh'); }
  document.addEventListener('htmx:configRequest', function (event) {
    if (event.detail.elt === live && etag) event.detail.headers['If-None-Match'] = etag;
  });
  document.addEventListener('htmx:beforeSwap', function (event) {
    if (event.detail.elt !== live && event.detail.target !== live) return;
    if (selected(live)) { // who selects something keeps it, until it is let go
      event.detail.shouldSwap = false;
      waiting = true;
      return;
    }
    if (event.detail.shouldSwap) {
      keep();
      etag = event.detail.xhr.getResponseHeader('ETag') || '';
    }
  });
  document.addEventListener('selectionchange', function () {
    if (waiting && !selected(live)) { waiting = false; ask(); }
  });
  document.addEventListener('htmx:afterRequest', function (event) {
    var xhr = event.detail.xhr;
    if (event.detail.elt !== live || !xhr) return;
    if (xhr.status === 401) location.assign('/ui/sign-in?next=' + encodeURIComponent(location.pathname + location.search));
    var date = Date.parse(xhr.getResponseHeader('Date') || '');
    if (date) skew = Math.abs(date - Date.now()) < 2000 ? 0 : date - Date.now();
  });
  document.addEventListener('htmx:afterSwap', function (event) {
    if (event.detail.target === live) restore();
  });

  // What a swap must not take: the focus, what is open, how far a list was scrolled.
  var kept = null;
  function key(element) { // an element is known again by its id, or by what it is and its turn
    if (element.id) return { id: element.id };
    var selector = element.tagName.toLowerCase();
    ['href', 'data-copy'].forEach(function (name) {
      var value = element.getAttribute(name);
      if (value !== null) selector += '[' + name + '="' + CSS.escape(value) + '"]';
    });
    return { selector: selector, turn: Array.prototype.indexOf.call(live.querySelectorAll(selector), element) };
  }
  function find(k) { return k.id ? document.getElementById(k.id) : live.querySelectorAll(k.selector)[k.turn]; }
  function keep() {
    kept = { open: {}, scrolled: [], focus: null, top: window.scrollY };
    live.querySelectorAll('details[id]').forEach(function (d) { kept.open[d.id] = d.open; });
    live.querySelectorAll('[data-scroll]').forEach(function (e) {
      if (e.scrollTop || e.scrollLeft) kept.scrolled.push([e.id, e.scrollTop, e.scrollLeft]);
    });
    if (document.activeElement && live.contains(document.activeElement)) kept.focus = key(document.activeElement);
  }
  function restore() {
    refreshTimes();
    setStops();
    if (!kept) return;
    Object.keys(kept.open).forEach(function (id) {
      var d = document.getElementById(id);
      if (d) d.open = kept.open[id];
    });
    kept.scrolled.forEach(function (s) {
      var e = document.getElementById(s[0]);
      if (e) { e.scrollTop = s[1]; e.scrollLeft = s[2]; }
    });
    var focus = kept.focus && find(kept.focus);
    if (focus) focus.focus({ preventScroll: true });
    if (window.scrollY !== kept.top) window.scrollTo(window.scrollX, kept.top);
    kept = null;
  }

  setInterval(passSecond, 1000);
  refreshTimes();
})();
