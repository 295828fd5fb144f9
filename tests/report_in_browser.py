#!/usr/bin/env python3
"""Whether a page of `laconic report` draws itself in a browser: report_in_browser.py APPS CHROMIUM

Trains LeNet for some steps, makes a page with a plan, a ledger and a timeline, and lets Chromium show it in a wide and a
narrow window, light and dark. Each part must be drawn, nothing may be said on the console, and nothing may be wider than
a narrow window. Then the browser shows a training with --live before its end and after it."""
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

apps, chromium = pathlib.Path(sys.argv[1]), sys.argv[2]
with tempfile.TemporaryDirectory() as folder:
    page = pathlib.Path(folder) / 'page.html'
    train = [apps / 'mnist', '--data', 'synthetic:400,100', '--workers', '2', '--batch', '10', '--quiet']
    subprocess.run(train + ['--epochs', '2', '--plan', 'auto', '--log', f'{folder}/dense.jsonl', '--trace', f'{folder}/trace'], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(train + ['--epochs', '2', '--sync', 'redsync', '--dense-below', '1KiB', '--ledger', '--log', f'{folder}/redsync.jsonl'], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([apps / 'laconic', 'report', f'dense={folder}/dense.jsonl', f'RedSync={folder}/redsync.jsonl', '--trace', f'dense={folder}/trace', '-o', page], check=True, stdout=subprocess.DEVNULL)
    learned = pathlib.Path(folder) / 'learned.html'
    subprocess.run([apps / 'laconic', 'compare', 'mnist', *train[1:-1], '--epochs', '2', '--learn', '3', '--repeat', '2', '--quiet', '--report', learned,
                    '--vs', 'dense: ', '--vs', 'RedSync: --sync redsync'], check=True, stdout=subprocess.DEVNULL)
    # What does not fit is told in the page's title, which --dump-dom shows.
    wide = "<script>document.title += document.documentElement.scrollWidth > innerWidth ? ' TOO WIDE' : ' fits'</script></body>"
    common = ('Training loss', 'Test loss', 'Learning rate', 'accuracy', 'waiting for gradients')
    for shown, least, parts in (
            (page, {'<path': 6, '<rect': 60, '<td': 60, '<svg': 6}, ('The plan: what travels how', 'Ledger', 'A timeline of all ranks', '2^-10', ' bits on average')),
            (learned, {'<path': 8, '<rect': 6, '<td': 22, '<svg': 6}, ('s to the target', 'target ', 'means over 2 seeds', 'were timed on the network'))):
        shown.write_text(shown.read_text().replace('</body>', wide))
        for size, dark in (('1200,900', False), ('500,900', True)):
            browser = subprocess.run([chromium, '--headless=new', '--no-sandbox', '--disable-gpu', f'--user-data-dir={folder}/profile',
                                      '--enable-logging=stderr', f'--window-size={size}', '--dump-dom', f'file://{shown}']
                                     + (['--force-dark-mode', '--blink-settings=preferredColorScheme=0'] if dark else []),
                                     capture_output=True, text=True, timeout=120)
            said = re.findall(r'.*CONSOLE.*', browser.stderr)
            assert not said, f'on the console: {said}'
            dom = browser.stdout.split('<script>')[0] + browser.stdout.split('</script>')[-1]  # what is drawn
            assert ' fits</title>' in dom, 'wider than its window: ' + re.search(r'<title>.*?</title>', dom)[0]
            for what, few in least.items():
                assert dom.count(what) >= few, f'{dom.count(what)} of {what} in a window of {size}'
            for part in common + parts:
                assert part in dom, f'{part} is not shown'

    followed = pathlib.Path(folder) / 'followed.html'
    training = subprocess.Popen(train + ['--epochs', '100000', '--report', followed, '--live', '0.2'])
    while not followed.exists() or not followed.stat().st_size:
        time.sleep(0.01)
    browse = lambda: subprocess.run([chromium, '--headless=new', '--no-sandbox', '--disable-gpu', f'--user-data-dir={folder}/profile', '--enable-logging=stderr',
                                     '--dump-dom', f'file://{followed}'], capture_output=True, text=True, timeout=120)
    while_it_trains = browse()
    training.send_signal(signal.SIGTERM)
    assert training.wait(60) == 143
    for shown, goes_on in ((while_it_trains, True), (browse(), False)):
        assert 'CONSOLE' not in shown.stderr, shown.stderr
        assert ('The training goes on: step ' in shown.stdout.split('<script>')[0]) == goes_on
        assert 'waiting for gradients' in shown.stdout and shown.stdout.count('<path') >= 2
print('the page draws itself')
