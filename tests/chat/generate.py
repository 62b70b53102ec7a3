#!/usr/bin/env python3
"""Golden renderings of tests/data/chat/constructs.json by the real Jinja (pip install jinja2==3.1.6), set up as the
transformers library sets it up. usage: generate.py [OUT]"""
import datetime, json, os, sys
import jinja2, jinja2.ext, jinja2.sandbox
from jinja2 import nodes

CLOCK = datetime.datetime(2026, 1, 15, 10, 30, 0)
BOS, EOS = "<s>", "</s>"


class Generation(jinja2.ext.Extension):
    """A block that only marks what the assistant wrote; its body is rendered in a scope of its own."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller): return caller()


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message): raise jinja2.exceptions.TemplateError(message)
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda fmt: CLOCK.strftime(fmt)
    return env


DATA = dict(
    messages=[{"role": "system", "content": "Sê breve."}, {"role": "user", "content": " Olá, <b>mundo</b>! \n"},
              {"role": "assistant", "content": "ok", "tool_calls": [{"id": "1", "function": {"name": "soma", "arguments": {"a": 1, "b": 2.5}}}]},
              {"role": "tool", "content": "3.5"}],
    tools=[{"type": "function", "function": {"name": "soma", "description": "Adds \"two\" numbers\n\tsafely \u2028 \x7f \x01",
                                             "parameters": {"type": "object", "properties": {"b": {"type": "number"}, "a": {"type": "number"}}, "required": []}}}],
    kwargs=dict(s="abc", text="The quick brown fox\njumps over\n\nthe lazy dog\n", u="Ünïcødé ß ŉ ΑΣ ΑΣΑ ǆ 你好 😊", empty="", i=7, neg=-3, f=2.5, big=1e22, small=1e-7,
                t=True, no=None, nums=[3, 1, 2], mixed=[1, "a", None, True, 2.0, [1], {"k": "v"}], nested={"a": {"b": [10, {"c": "deep"}]}},
                d={"z": 1, "a": 2, "M": 3, "items": "shadow"}, words=["banana", "Apple", "cherry", "apple"],
                people=[{"name": "Zé", "age": 30, "x": {"y": 1}}, {"name": "Ana", "age": 25}, {"name": "ana", "age": 30, "x": {"y": 0}}],
                quotes="it's", dq='say "hi"', both="it's \"x\"\\\n\t\x00é", html="<a href='x'>&\"</a>", spaces="  a  b \t c  ", lines="a\r\nb\nc\x0bd\u2028e", csv="a,b,,c,"))

EXPRESSIONS = r"""
1 + 2 * 3 - 4 // 3 ;; 7 / 2 ;; 7 // 2 ;; -7 // 2 ;; 7 % 3 ;; -7 % 3 ;; 7 % -3 ;; 2 ** 10 ;; -2 ** 2 ;; 2 ** 3 ** 2 ;; 1.5 + 1 ;; 7.5 // 2 ;; -7.5 % 2 ;; 1e3 ;; 1_000 + 0x1F + 0b101 + 0o17 ;; 1.0 ;; 1e16 ;; 123456789012345680.0 ;; 0.1 + 0.2 ;; 1e-5 ;; 0.0001 ;; 100000.0 ;; 5e-324 ;; 1.7976931348623157e308
+5 ;; -i ;; - 3 ;; +neg ;; i + 1 ;; i / 2 ;; i * f ;; f * 2 ;; big ;; small ;; 10 / 5 ;; 3 * 'ab' ;; 'ab' * 2 ;; [1] * 3 ;; (1, 2) * 2 ;; 'x' * -1 ;; true + true ;; i > 5 and f < 3 ;; 1 < 2 < 3 ;; 1 < 3 < 2 ;; 3 > 2 >= 2 ;; 1 == 1.0 == true
not true ;; not not i ;; none or 'x' ;; '' or none ;; 0 and x ;; 1 and 2 ;; none is none ;; not none is none ;; true ;; True ;; false ;; False ;; none ;; None
'a' ~ 1 ~ none ~ true ~ 2.5 ~ [1, 'b'] ~ {'k': none} ~ (1,) ~ undefined_thing ;; 'a' 'b' "c" ;; 'a' + 'b' ;; 'a' in 'cat' ;; 'x' not in 'cat' ;; '' in 'a' ;; 1 in [1, 2] ;; 'a' in d ;; 'q' in d ;; 2 in (1, 2) ;; 1 in {} ;; 'z' not in d ;; true in [1]
[1, 2] + [3] ;; (1,) + (2, 3) ;; [] ;; () ;; {} ;; [1, [2, (3,)], {'a': [none, true, 1.5]}] ;; (1,) ;; (1, 2,) ;; {'a': 1, 'a': 2} ;; {1: 'x', none: 2, true: 3} ;; mixed ;; d ;; nested ;; messages[1] ;; ['a\'b', "x\ny", 'a"\'b']
quotes ;; [quotes, dq, both] ;; [u] ;; ["\x7f\x80\xa0\u200b\u2028\ufeff\U0001f600"] ;; "tab\there \\ \a\b\f\v \101 \q" ;; 'new\nline' ;; "é\u00e9\x41"
s[0] ;; s[-1] ;; s[1:] ;; s[:-1] ;; s[::-1] ;; s[5:] ;; s[-2:] ;; u[1] ;; u[-1] ;; u[2:6] ;; u[::2] ;; u[10:2:-3] ;; nums[0] ;; nums[-1] ;; nums[1:] ;; nums[::-1] ;; nums[:2] ;; nums[5:] ;; nums[-100:100] ;; nums[::2] ;; nums[7] is defined ;; nums[true] ;; (1, 2, 3)[1:] ;; s[none:2] ;; s[7] is defined
nested.a.b[0] ;; nested['a']['b'][1].c ;; nested.a.b.1.c ;; d['a'] ;; d.a ;; d['items'] ;; d.items() ;; d.items is callable ;; d['nope'] is defined ;; d.nope is defined ;; nope is defined ;; nope ;; nope is undefined ;; messages[0].role ;; messages[-1]['role'] ;; messages[0].tool_calls is defined ;; people[0].x.y
d.keys() ;; d.values() ;; d.keys() | list ;; d.get('a') ;; d.get('q') ;; d.get('q', 5) ;; d|length ;; d|list ;; d.items()|list ;; nums.index(2) ;; nums.count(1) ;; (1, 1).count(1)
1 if t else 2 ;; 1 if no else 2 ;; (1 if no) is defined ;; 'a' if t else 'b' if no else 'c' ;; ('x' if t) ~ 'y' ;; 1 if true else 2 if false else 3
s.upper() ;; u.upper() ;; u.lower() ;; u.title() ;; u.capitalize() ;; u.casefold() ;; u.swapcase() ;; 'hello wORLD they\'re'.title() ;; 'ǅ'.swapcase() ;; 'ΑΣ.'.lower() ;; "ß".upper() ;; 'İ'.lower()
spaces.strip() ;; spaces.lstrip() ;; spaces.rstrip() ;; 'xxabxx'.strip('x') ;; 'xyab'.lstrip('yx') ;; 'abxy'.rstrip('xy') ;; '\u00a0 a\u2003'.strip() ;; 'éaé'.strip('é') ;; '  '.strip() ;; ''.strip()
spaces.split() ;; spaces.split(' ') ;; csv.split(',') ;; csv.split(',', 1) ;; csv.split(',', maxsplit=2) ;; csv.rsplit(',', 1) ;; spaces.rsplit(none, 1) ;; spaces.split(none, 1) ;; ''.split() ;; ''.split(',') ;; 'a--b--c'.split('--') ;; 'aaa'.rsplit('aa') ;; '</think>x</think>y'.split('</think>')[-1] ;; text.splitlines() ;; lines.splitlines() ;; lines.splitlines(true) ;; 'a\n'.splitlines() ;; ''.splitlines()
s.replace('b', 'XX') ;; 'aaaa'.replace('a', 'b', 2) ;; 'abc'.replace('', '-') ;; 'abc'.replace('', '-', 2) ;; s.replace('q', 'r') ;; 'aXbX'.replace('X', '')
s.startswith('a') ;; s.endswith('c') ;; s.startswith('') ;; s.startswith('bc', 1) ;; s.endswith('b', 0, 2) ;; s.startswith(('x', 'a')) ;; s.endswith(('x', 'y')) ;; s.startswith('abcd')
s.find('c') ;; u.find('你') ;; s.find('q') ;; 'abab'.rfind('b') ;; s.index('b') ;; 'aXbXc'.count('X') ;; 'aaa'.count('aa') ;; 'abc'.count('') ;; u.find('ø', 2, 9) ;; 'abab'.rfind('ab', 0, 3) ;; s.find('', 9)
'-'.join(words) ;; ', '.join(['a']) ;; ''.join([]) ;; 'a'.join('xyz') ;; 'k=v=w'.partition('=') ;; 'kv'.partition('=') ;; 'k=v=w'.rpartition('=') ;; 'kv'.rpartition('=') ;; 'prefix-x'.removeprefix('prefix-') ;; 'x.py'.removesuffix('.py') ;; 'x'.removesuffix('')
'5'.zfill(3) ;; '-5'.zfill(4) ;; 'ab'.ljust(5) ~ '|' ;; 'ab'.rjust(5, '*') ;; 'ab'.center(7, '*') ;; 'abc'.center(6, '*') ;; 'a\tb\n\tc'.expandtabs(4)
'abc'.isalpha() ;; 'ab1'.isalnum() ;; '12'.isdigit() ;; '²'.isdigit() ;; '½'.isnumeric() ;; '٣'.isdecimal() ;; 'AB'.isupper() ;; 'ab1'.islower() ;; ' \t'.isspace() ;; ''.isspace() ;; ''.isalpha() ;; 'é'.isascii() ;; '1'.isupper()
'{} and {}'.format(1, 'x') ;; '{0}{1}{0}'.format('a', 'b') ;; '{name}: {v:>5}|'.format(name='n', v=3) ;; '{:05d}|{:+}|{:,}|{:x}|{:#x}|{:.2f}|{:8.3f}|{:<6}|{:^7}|{:e}'.format(42, 5, 1234567, 255, 255, 3.14159, 2.5, 'ab', 'mid', 12345.678) ;; '{{}}{}'.format(1) ;; '{0[a]} {0.real}'.format(d) is string ;; '{!r}'.format('q') ;; '{:%}'.format(0.25) ;; '{:*^9}'.format('é') ;; '{:.2}'.format('abcdef')
'%s is %d years and %.2f' % ('Ana', 30, 1.5) ;; '%5s|%-5s|%05d|%x|%X|%o|%+d|%e|%g|%%|%r|%c' % ('a', 'b', 42, 255, 255, 8, 3, 1234.5, 0.0001, 'q', 'z') ;; '%(a)s-%(z)d' % d ;; '%s' % 'one' ;; '%s' % [1, 2] ;; '%.3s' % 'abcdef' ;; '%d' % 3.9 ;; '%s %s' % (none, true)
'%s' | format('x') ;; '%s-%s' | format(1, 2) ;; '%(k)s' | format(k=5)
s | upper ;; s | capitalize ;; 'HELLO World-foo bar(baz' | title ;; u | title ;; text | title ;; spaces | trim ;; 'xxaxx' | trim('x') ;; 42 | string ;; 3 | upper ;; none | upper ;; undefined_thing | trim ;; messages | length ;; s | length ;; u | length ;; undefined_thing | length ;; text | wordcount ;; u | wordcount
'a' | center(5) ~ '|' ;; text | indent ;; text | indent(2) ;; text | indent(2, true) ;; text | indent(width=3, first=true, blank=true) ;; text | indent('> ') ;; 'a\n' | indent ;; '' | indent(2, true)
text | truncate(12) ;; text | truncate(12, true) ;; text | truncate(12, false, '…', 0) ;; s | truncate(5) ;; 'aaaaaaaaaaaaaaaa' | truncate(9) ;; text | truncate(length=10, end='!', leeway=0)
html | escape ;; html | e ;; 'a' | safe ;; 'a b/c?d=é&' | urlencode ;; {'a b': 'c&d', 'e': 1} | urlencode ;; [('x', 'y z')] | urlencode
undefined_thing | default('dflt') ;; none | default('d') ;; none | default('d', true) ;; '' | d('x', boolean=true) ;; undefined_thing | default ;; s | default('q') ;; (nope.attr is defined) if nope is defined else 'guarded'
'12' | int ;; ' -12 ' | int ;; 'x' | int ;; 'x' | int(default=5) ;; '3.9' | int ;; 3.9 | int ;; -3.9 | int ;; '0x1A' | int(base=16) ;; '11' | int(0, 2) ;; '1_0' | int ;; none | int ;; true | int ;; '1e3' | int ;; '1.5' | float ;; 'x' | float ;; 'x' | float(2.5) ;; 3 | float ;; 'inf' | float ;; 'nan' | float
-3 | abs ;; -2.5 | abs ;; 2.5 | round ;; 3.5 | round ;; 2.675 | round(2) ;; 2.5 | round(method='ceil') ;; 2.7 | round(0, 'floor') ;; -2.5 | round(method='floor') ;; 7 | round ;; 1234.5678 | round(1) ;; 1e22 | round
nums | first ;; nums | last ;; s | first ;; [] | first is defined ;; d | first ;; d | last ;; nums | list ;; s | list ;; d | list ;; nums | reverse | list ;; s | reverse ;; u | reverse ;; nums | sort ;; nums | sort(reverse=true) ;; words | sort ;; words | sort(case_sensitive=true) ;; words | sort(true, true)
people | sort(attribute='age') | map(attribute='name') | list ;; people | sort(attribute='age,name') | map(attribute='name') | join(' ') ;; people | sort(attribute='name', reverse=true) | map(attribute='name') | list ;; d | dictsort ;; d | dictsort(true) ;; d | dictsort(reverse=true) ;; {'x': 2, 'y': 1} | dictsort(by='value')
words | unique | list ;; words | unique(case_sensitive=true) | list ;; people | unique(attribute='age') | map(attribute='name') | list ;; nums | min ;; nums | max ;; words | min ;; words | max(case_sensitive=true) ;; people | min(attribute='age') ;; [] | max is defined ;; nums | sum ;; people | sum(attribute='age') ;; nums | sum(start=10) ;; [0.5, 1] | sum
words | join ;; words | join(', ') ;; words | join(d='|') ;; people | join(', ', attribute='name') ;; 'abc' | join('-') ;; [1, none, true, 2.5] | join(' ') ;; [] | join(',') ;; undefined_thing | join(',') ;; d | join(',') ;; nums | join(1)
nums | batch(2) | list ;; nums | batch(2, 'x') | list ;; [1,2,3,4,5,6,7] | slice(3) | list ;; [1,2,3,4,5,6,7] | slice(3, 'x') | list ;; d | items | list ;; undefined_thing | items | list
words | map('upper') | list ;; words | map('replace', 'a', 'X') | list ;; words | map('truncate', 3, true, '') | list ;; people | map(attribute='age') | list ;; people | map(attribute='x.y', default='none') | list ;; people | map(attribute='x', default='none') | list ;; nums | map('string') | join ;; [[1, 2], [3, 4]] | map(attribute=1) | list ;; [[1, 2], [3, 4]] | map('first') | list ;; words | map('length') | sum
nums | select('odd') | list ;; nums | reject('odd') | list ;; [0, 1, '', 'a', none] | select | list ;; [0, 1, '', 'a', none] | reject | list ;; nums | select('gt', 1) | list ;; nums | select('in', [1, 3]) | list ;; words | select('equalto', 'apple') | list ;; words | reject('==', 'apple') | list ;; [1, 'a'] | select('string') | list
people | selectattr('age', 'equalto', 30) | map(attribute='name') | list ;; people | rejectattr('age', 'eq', 30) | map(attribute='name') | list ;; people | selectattr('x') | map(attribute='name') | list ;; people | selectattr('x', 'defined') | map(attribute='name') | list ;; people | selectattr('x', 'undefined') | map(attribute='name') | list ;; messages | selectattr('role', 'in', ['user', 'tool']) | map(attribute='role') | list ;; people | selectattr('x.y') | list | length if false else 'skip' ;; messages | selectattr('role', 'equalto', 'user') | list | length
s is string ;; 1 is string ;; d is mapping ;; nums is mapping ;; nums is iterable ;; s is iterable ;; 1 is iterable ;; nums is sequence ;; d is sequence ;; s is sequence ;; 1 is number ;; true is number ;; 1 is integer ;; true is integer ;; 1.0 is float ;; 1 is float ;; true is boolean ;; 1 is boolean ;; true is true ;; 1 is true ;; false is false ;; none is none ;; 0 is none ;; s is callable ;; range is callable ;; 4 is even ;; 3 is odd ;; 9 is divisibleby(3) ;; 9 is divisibleby 2 ;; 'a' is in 'abc' ;; 1 is in [2] ;; 'A' is upper ;; 'a' is lower ;; 1 is sameas 1 ;; true is sameas true ;; none is sameas none ;; 1 is eq 1 ;; 1 is not eq 1 ;; 1 is ne 2 ;; 1 is lt 2 ;; 2 is ge 2 ;; 2 is greaterthan 1 ;; 1 is lessthan 0 ;; 'upper' is filter ;; 'nope' is filter ;; 'even' is test ;; s is not string ;; 1 is equalto 1.0
messages | tojson ;; tools | tojson ;; tools | tojson(indent=2) ;; tools[0] | tojson(indent=4) ;; mixed | tojson ;; mixed | tojson(indent=0) ;; {} | tojson ;; [] | tojson(indent=2) ;; {'a': [], 'b': {}} | tojson(indent=2) ;; u | tojson ;; u | tojson(ensure_ascii=true) ;; d | tojson(sort_keys=true) ;; d | tojson(separators=(',', ':')) ;; nested | tojson(indent='\t') ;; both | tojson ;; (1, 2) | tojson ;; {1: 2, none: 3, true: 4, 1.5: 5} | tojson ;; 1e22 | tojson ;; 1.0 | tojson ;; none | tojson ;; true | tojson ;; 'nan' | float | tojson ;; 'é' | tojson ;; '</script>' | tojson
'<b>' | safe + s + '<' ;; html | safe + html ;; html + ('<' | safe) ;; (html | e) + '&' ;; html | e | e ;; html | e | forceescape ;; ('<b>' | safe)[1:] + '<' ;; ('<b>' | safe)[0] + '<' ;; ('<' | safe) ~ '<' ;; ('<a>' | safe).upper() + '<' ;; ('<a>' | safe).replace('a', '<') ;; ('<' | safe).join(['<', 'a']) ;; ('a<b' | safe).split('<')[0] + '<' ;; '<' | safe * 2 + '<' ;; [('<' | safe), '<'] ;; ('<' | safe) | upper + '<' ;; (' <' | safe) | trim + '<' ;; '<' | safe | replace('<', '>') + '<' ;; ('%s<' | safe) % '<' ;; ('%s%d<' | safe) % ('<', 3) ;; ['<' | safe, '<'] | join('<') + '<' ;; '<' | safe | tojson ;; ('<' | safe) is escaped ;; '<' is escaped ;; ('<' | safe) == '<' ;; ('<' | safe) in '<a' ;; ('a' | safe) | length ;; 5 | safe + '<' ;; none | select | list ;; none | map('upper') | list ;; undefined_thing | selectattr('a') | list ;; 0 | reject | list ;; none | rejectattr('a', 'eq', 1) | list
range(3) | list ;; range(1, 4) | list ;; range(10, 0, -3) | list ;; range(3) ;; range(2, 9, 3) ;; range(3) | length ;; range(5)[1:3] | list ;; range(5)[-1] ;; 3 in range(5) ;; range(0) | list ;; range(3) | join(',') ;; dict(a=1, b='x') ;; dict(d, q=1) ;; dict([('k', 'v')]) ;; dict()
strftime_now('%Y-%m-%d') ;; strftime_now('%d %b %Y, %A %B %H:%M:%S %p %j') ;; strftime_now('%-d/%-m/%y %I %a %%') ;; strftime_now('no directives é') ;; strftime_now('%F %T %D %e|%f|%Z|%z') ;; bos_token ;; eos_token ;; bos_token ~ s ;; add_generation_prompt ;; documents ;; tools is none ;; documents is none
nums == [3, 1, 2] ;; nums != [3] ;; d == {'a': 2, 'z': 1, 'M': 3, 'items': 'shadow'} ;; messages[0] == messages[0] ;; messages[0] == messages[1] ;; (1, 2) == (1, 2) ;; (1, 2) == [1, 2] ;; 'a' < 'b' ;; 'Z' < 'a' ;; [1, 2] < [1, 3] ;; (1,) < (1, 0) ;; 'é' > 'z' ;; 1 == '1' ;; none == false ;; undefined_thing == undefined_other ;; undefined_thing == none ;; 'nan' | float == 'nan' | float
text[:10] | upper | replace('Q', 'k') ;; (s ~ u)[2:5] ;; (1, 'a') | join ;; [s, u] | map('first') | join ;; not s is string ;; not 'a' in s ;; s | upper ~ s ;; -1 | abs ;; (-1) | abs ;; 1 + 2 | string ;; 'x' if 'a' in s and not t else 'y' ;; s.upper().lower() ;; words | map('upper') | first ;; [1, 2, 3][1] ;; {'a': 1}['a'] ;; {'a': 1}.a ;; 'abc'[1] ;; "a,b".split(",")[1] ;; (s)[0] ;; ((1)) ;; (('x',))
1 + ;; nope.x ;; nope['x'] ;; none.x is defined ;; none.x ;; nope + 1 ;; nope() ;; s + 1 ;; 1 + 's' ;; nums + (1,) ;; 1 / 0 ;; 1 // 0 ;; 1 % 0 ;; 'a' < 1 ;; none < 1 ;; nope < 1 ;; [1] in {'a': 1} ;; s.index('q') ;; nums.index(99) ;; nums[0].x.y ;; 1() ;; s() ;; d | tojson(indent=[]) ;; nope | tojson ;; range | tojson ;; 5 | length ;; 5 | list ;; 5 | first ;; none | length ;; [1, 'a'] | sort ;; [none] | sum ;; -s ;; '%d' % 's' ;; '%s %s' % 'a' ;; '%s' % (1, 2) ;; '{}'.format() ;; 'a'.join([1]) ;; dict(1) ;; nums | select('nosuch') | list ;; raise_exception('Boom: é') ;; d.nope.deeper ;; nope ~ nope.x ;; {}[[]] is defined ;; s.split('') ;; range(1, 2, 0) ;; 'x'.center(5, 'ab') ;; namespace(a=1).b ;; namespace(a=1).b.c ;; 1 in 5 ;; 'a' in none ;; none | join ;; 5 in nope ;; nope is iterable ;; nope is sequence ;; nope is mapping ;; nope | list ;; nope | first ;; nope | default(5) + 1 ;; nope | string ;; nope | upper ;; nope in [1] ;; nope == 1 ;; nope or 1 ;; not nope ;; nope | int ;; nope | abs
""".strip().split("\n")

TEMPLATES = {
    "if": "{% if i == 7 %}seven{% elif i == 8 %}eight{% else %}other{% endif %}|{% if no %}x{% elif t %}y{% endif %}|{% if nope %}z{% endif %}",
    "if tuple": "{% if (1, 2) %}a{% endif %}{% if () %}b{% endif %}{% if 1, 2 %}c{% endif %}",
    "for": "{% for n in nums %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }}/{{ loop.depth }}/{{ loop.depth0 }}:{{ n }};{% else %}none{% endfor %}",
    "for else": "{% for n in [] %}x{% else %}empty{% endfor %}{% for n in nope %}x{% else %}undef{% endfor %}",
    "for unpack": "{% for k, v in d.items() %}{{ k }}={{ v }} {% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for (a, b) in [(1, 2)] %}{{ a + b }}{% endfor %}",
    "for filter": "{% for n in nums if n > 1 %}{{ n }}{{ loop.length }}{{ loop.last }}{{ loop.index }} {% endfor %}{% for k, v in d.items() if k != 'a' %}{{ k }}{{ ',' if not loop.last }}{% endfor %}{% for x in nums if x > 9 %}{% else %}none{% endfor %}",
    "for filter lazy": "{% set ns = namespace(stop=false) %}{% for n in [1,2,3,4] if not ns.stop %}{{ n }}{% if n == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
    "for filter lookahead": "{% set ns = namespace(stop=false) %}{% for n in [1,2,3,4] if not ns.stop %}{{ n }}{{ loop.last }}{% if n == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
    "for string and dict": "{% for c in 'añb' %}[{{ c }}]{% endfor %}{% for k in d %}{{ k }},{% endfor %}{% for t in 1, 2 %}{{ t }}{% endfor %}",
    "prev next": "{% for n in nums %}{{ loop.previtem }}<{{ n }}>{{ loop.nextitem if not loop.last else 'end' }} {{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}",
    "cycle changed": "{% for n in [1, 1, 2, 2, 1] %}{{ loop.cycle('odd', 'even') }}{{ loop.changed(n) }} {% endfor %}",
    "break continue": "{% for n in range(10) %}{% if n == 2 %}{% continue %}{% endif %}{% if n == 5 %}{% break %}{% endif %}{{ n }}{% endfor %}|{% for a in [1, 2] %}{% for b in [1, 2, 3] %}{% if b == 2 %}{% break %}{% endif %}{{ a }}{{ b }} {% endfor %}{% endfor %}",
    "break in with and if": "{% for n in range(4) %}{% with q = n %}{% if q == 2 %}{% break %}{% endif %}{{ q }}{% endwith %}{% endfor %}",
    "scope": "{% set x = 1 %}{% for n in nums %}{% set x = n %}{{ x }}{% endfor %}{{ x }}{% if t %}{% set x = 5 %}{% endif %}{{ x }}{% with x = 9, y = x %}{{ x }}{{ y }}{% set x = 10 %}{{ x }}{% endwith %}{{ x }}{{ y is defined }}",
    "scope per iteration": "{% for n in nums %}{% if seen is defined %}S{% else %}-{% endif %}{% set seen = n %}{{ seen }}{% endfor %}",
    "loop in loop": "{% for a in [1, 2] %}{% for b in 'xy' %}{{ loop.index }}{{ b }}{% endfor %}{{ loop.index }} {% endfor %}{{ loop is defined }}",
    "outer loop": "{% for a in [1, 2] %}{% set outer = loop %}{% for b in [1, 2] %}{{ outer.index }}.{{ loop.index }} {% endfor %}{% endfor %}",
    "recursive": "{% for n in [{'v': 1, 'c': [{'v': 2, 'c': [{'v': 3}]}]}, {'v': 4}] recursive %}{{ n.v }}({{ loop.depth }}){% if n.c %}[{{ loop(n.c) }}]{% endif %}{% endfor %}",
    "set": "{% set a = 1 %}{% set b, c = 2, 3 %}{% set t2 = 4, 5 %}{{ a }}{{ b }}{{ c }}{{ t2 }}{% set b, c = c, b %}{{ b }}{{ c }}",
    "set block": "{% set x %}Hello {{ s }}{% set inner = 1 %}{% endset %}[{{ x }}]{{ inner is defined }}{% set y | upper | replace('A', 'b') %}abc{{ s }}{% endset %}{{ y }}",
    "namespace": "{% set ns = namespace(a=1, b='x') %}{% for n in nums %}{% set ns.a = ns.a + n %}{% set ns.c = n %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.zz is defined }}{% set n2 = namespace({'q': 5}, r=6) %}{{ n2.q }}{{ n2['r'] }}{% set n3 = namespace() %}{{ n3.x is defined }}",
    "macro": "{% macro m(a, b=2, c='z') %}({{ a }},{{ b }},{{ c }}){% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(c=1, a=0) }}{{ m() }}{{ m('x', b=m(5)) }}{{ m(*[1, 2]) }}{{ m(**{'a': 7}) }}",
    "macro scope": "{% set g = 'global' %}{% macro m() %}{{ g }}{% set g = 'local' %}{{ g }}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }}{{ g }}",
    "macro varargs": "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}{{ m(1) }}",
    "macro recursion": "{% macro fact(n) %}{% if n <= 1 %}1{% else %}{{ n * (fact(n - 1) | int) }}{% endif %}{% endmacro %}{{ fact(10) }}",
    "macro result": "{% macro m(x) %} {{ x }} {% endmacro %}{{ m('a') | trim | upper }}{{ m('b') | length }}{{ 'a' in m('a') }}{% set r = m(1) %}{{ r == ' 1 ' }}",
    "macro default expr": "{% macro m(a, b=a ~ '!') %}{{ a }}{{ b }}{% endmacro %}{{ m('x') }}",
    "macro whitespace": "{%- macro m(a) -%}\n  {{- a -}}\n{%- endmacro -%}\n[{{ m(1) }}]",
    "macro too many": "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "macro bad kwarg": "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}",
    "call block": "{% macro box(title) %}<{{ title }}:{{ caller() }}>{% endmacro %}{% call box('T') %}in{{ s }}side{% endcall %}",
    "call block args": "{% macro each(l) %}{% for x in l %}{{ caller(x, loop.index) }};{% endfor %}{% endmacro %}{% call(v, i) each(nums) %}{{ i }}={{ v }}{% endcall %}",
    "caller defined": "{% macro m() %}{{ caller is defined }}{% if caller %}{{ caller() }}{% endif %}{% endmacro %}{{ m() }}{% call m() %}x{% endcall %}",
    "filter block": "{% filter upper | replace('B', 'x') %}abc {{ s }}{% endfilter %}{% filter indent(2, true) %}a\nb{% endfilter %}",
    "generation": "a{% generation %}b{{ s }}{% set q = 1 %}{% endgeneration %}c{{ q is defined }}",
    "raw": "{% raw %}{{ not }} {% a %} {# b #}{% endraw %}|{%- raw -%}  x  {%- endraw -%}  |\n  {% raw %}\n a\n  {% endraw %}\nz",
    "comments": "a{# x #}b{#- y -#} c\n{# line #}\n  {# indented #}\nd  {#- strip #} e {# multi\nline {{ }} {% #}f{#-#}g",
    "trim blocks": "{% if t %}\na\n{% endif %}\nb\n{% for n in nums %}\n  {{ n }}\n{% endfor %}\n\n{% set x = 1 %}\n\nend\n",
    "lstrip blocks": "  {% if t %}\n    text\n\t{% endif %}\n x {% if t %}y{% endif %}\n  {{ s }}\n  {# c #}\n    {%+ if t %}keep{% endif +%}\nz",
    "sign": "a  {{- s -}}  b {{+ s }} c {%- if t -%}  d  {%- endif -%}  e\n\n{%- set z = 1 +%}\nf{{ -1 }}{{-1}}{{- -1 -}}x",
    "trailing newline": "a\n\n", "trailing newline crlf": "a\r\nb\r\n", "old mac": "a\rb\r", "only newline": "\n", "empty": "", "no newline": "x",
    "unicode space strip": "a\u00a0\u2003{{- s -}}\u3000b \u00a0{% if t %}c{% endif %}\n\u00a0{% if t %}d{% endif %}",
    "line start after strip": "{{ s }}\n  {%- if t %} x{% endif -%}\n  {% if t %}y{% endif %}",
    "print": "{% print s, 1 %}{% print 'x' %}",
    "colon": "{% if t: %}a{% else: %}b{% endif %}{% for x in nums: %}{{ x }}{% endfor %}",
    "tuple output": "{{ 1, 2 }}{{ 'a', }}{{ () }}",
    "braces in tags": "{{ {'a': {'b': 1}}['a']['b'] }}{{ {'x': '}}'}.x }}{% if '%}' %}ok{% endif %}",
    "nested quotes": "{{ \"it's\" }}{{ 'say \"x\"' }}{{ 'a\\'b' }}{{ 'line\nbreak' }}",
    "joiner cycler": "{% set j = joiner('; ') %}{% for n in nums %}{{ j() }}{{ n }}{% endfor %}{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{% set _ = c.reset() %}{{ c.next() }}",
    "set in branches": "{% if no %}{% set v = 1 %}{% else %}{% set v = 2 %}{% endif %}{{ v }}",
    "guarded function": "{% if other_fn is defined %}{{ other_fn(1) }}{% else %}no{% endif %}",
    "macro in namespace": "{% macro m(x) %}<{{ x }}>{% endmacro %}{% set ns = namespace() %}{% set ns.f = m %}{{ ns.f(3) }}",
    "macros in dict": "{% macro m(x) %}<{{ x }}>{% endmacro %}{{ {'f': m}['f'](4) }}",
    "raise in branch": "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('Role ' ~ m.role ~ ' at ' ~ loop.index0) }}{% endif %}{% endfor %}",
    "reverse loop": "{% for m in messages[::-1] %}{{ (messages | length - 1) - loop.index0 }}{{ m.role }} {% endfor %}",
    "alternate": "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}!{% else %}.{% endif %}{% endfor %}",
    "typical": "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] | trim + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "tool args": "{% for m in messages if m.tool_calls %}{% for c in m.tool_calls %}{% for k, v in c.function.arguments | items %}{{ k }}={{ v | tojson if v is mapping or v is sequence and v is not string else v | string }} {% endfor %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}",
    "ns unknown attr set": "{% set q = 1 %}{% set q.x = 2 %}",
    "unpack error": "{% set a, b = [1, 2, 3] %}",
    "for over int": "{% for x in 5 %}{% endfor %}",
    "loop undefined outside": "{{ loop.index }}",
}


def run(env, source, kwargs):
    try:
        return dict(output=env.from_string(source).render(messages=DATA["messages"], tools=kwargs.pop("tools", None), documents=None, add_generation_prompt=True,
                                                          bos_token=BOS, eos_token=EOS, **kwargs))
    except jinja2.exceptions.TemplateSyntaxError as e: return dict(error="syntax", message=str(e))
    except jinja2.exceptions.TemplateError as e: return dict(error="raise" if type(e) is jinja2.exceptions.TemplateError else "runtime", message=str(e))
    except Exception as e: return dict(error="runtime", message=f"{type(e).__name__}: {e}")


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "chat", "constructs.json")
    env, cases = environment(), []
    for line in EXPRESSIONS:
        cases += [dict(name=e, template="{{ " + e + " }}") for e in line.split(" ;; ")]
    for name, t in TEMPLATES.items(): cases.append(dict(name=name, template=t))
    for c in cases: c.update(run(env, c["template"], dict(DATA["kwargs"], tools=DATA["tools"])))
    json.dump(dict(data=DATA, bos_token=BOS, eos_token=EOS, clock=CLOCK.isoformat(), cases=cases), open(out, "w", encoding="utf-8"), ensure_ascii=False, indent=1)
    kinds = [c.get("error", "output") for c in cases]
    print(len(cases), "cases", {k: kinds.count(k) for k in sorted(set(kinds))})


if __name__ == "__main__": main()
