// What the scripts use and do not define: Plotly as far as it is called, Gradio's side of a view, and the page's head.

interface PlotlyLibrary {
  react(box: HTMLElement, data: object[], layout: object, config: object): Promise<void>;
  relayout(box: HTMLElement, update: object): Promise<void>;
  extendTraces(box: HTMLElement, update: object, traces: number[]): Promise<void>;
  downloadImage(figure: object, options: object): Promise<string>;
  Plots: { resize(box: HTMLElement): void };
}

/** An element with a chart: Plotly adds the figure that it drew, and its events. */
interface PlotlyBox extends HTMLDivElement {
  data: any[];
  layout: Record<string, any>;
  on(event: string, handler: (changed: any) => void): void;
}

/** What js_on_load of a gr.HTML component gets. */
interface GradioComponent {
  element: HTMLElement;
  props: { value: any; options?: any };
  trigger(event: string, data?: any): void;
  watch(names: string[], callback: () => void): void;
}

/** What a view gets beside the element that it fills. */
interface ViewContext {
  trigger: GradioComponent["trigger"];
  /** See balcony/frame/server.js; a page that is saved has none. */
  answer?(name: string, ...values: any[]): Promise<any>;
  options: any;
  setValue(value: any): void;
}

/** A view: it fills `root` and returns the function that draws a value, if it has one. */
type View = (root: HTMLElement, context: ViewContext) => any;

type WaitingView = [name: string, component: GradioComponent];

interface Window {
  Plotly: PlotlyLibrary;
  Balcony: {
    plotly: string;
    /** Kind and first value of each part of the question, see balcony/frame/question.py. */
    schema: Record<string, [kind: string, first: any]>;
    /** The part of the address after # with which the page was opened. */
    hash: string;
    /** At which others open the page, of a class. */
    address?: string;
    waiting: WaitingView[];
    /** What the buttons of the run get, as Gradio's updates. */
    buttons?: object[];
    /** The browser lets the page keep nothing. */
    forgets?: boolean;
    mount(...view: WaitingView): void;
    ask(update: object): void;
  };
}
